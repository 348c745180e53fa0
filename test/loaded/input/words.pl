# A deterministic perl script: hashes, regular expressions, sorting. Prints a checksum a round.
use strict;
use warnings;
my $state;
sub next_number { $state = ($state * 1103515245 + 12345) % 2147483648; return $state; }
for my $round (1 .. ($ARGV[0] // 1)) {
  $state = 12345 + $round;
  my (%count, @lines);
  for my $i (1 .. 60000) {
    my $word = join '', map { chr(97 + next_number() % 20) } 1 .. 1 + next_number() % 12;
    $count{$word}++;
    push @lines, "$word " x (1 + $i % 7);
  }
  my $text = join "\n", @lines;
  my $hits = () = $text =~ /\b[aeiou]\w+/g;
  $text =~ s/(\w)(\w)/$2$1/g;
  my $sum = 0;
  $sum = ($sum * 33 + $count{$_} + length) % 1000000007 for sort keys %count;
  print "$hits $sum ", length($text), "\n";
}
