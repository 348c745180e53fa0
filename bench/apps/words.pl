# Hashes, arrays and regular expressions over text.
use strict; use warnings;
my %count; my $sum = 0;
for my $round (1 .. 6) {
    my @lines = map { join ' ', map { "w" . (($_ * 7919 * $round) % 4001) } $_ .. $_ + 9 } 1 .. 15000;
    for my $line (@lines) { $count{$_}++ for split / /, $line; $sum++ while $line =~ /w(\d)\d*/g; }
    my %index; push @{ $index{ length $_ } }, $_ for @lines;
    my $text = join "\n", sort @lines; $text =~ s/w1/W-one/g; $sum += length($text) % 7;
}
die "wrong sum" unless $sum > 900000 && keys %count > 3000;
