# Count the words of a text, on Heddle. Build and run:
#   crystal build -Dgc_none --release words.cr && ./words FILE
require "../src/heddle"

counts = Hash(String, Int32).new(0)
File.each_line(ARGV[0]? || __FILE__) do |line|
  line.scan(/\w+/) { |match| counts[match[0].downcase] += 1 }
end
counts.to_a.sort_by! { |word, count| {-count, word} }.first(5).each { |word, count| puts "#{count.to_s.rjust(7)} #{word}" }

stats = Heddle.stats
puts "#{stats.live_count} blocks, #{stats.live} bytes, in Heddle #{Heddle.version}"
