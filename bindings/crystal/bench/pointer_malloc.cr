# Times Pointer(String).malloc(SIZE); prints nanoseconds for each. Built three times by bench/compare.
#   usage: pointer_malloc SIZE COUNT keep|free
{% if flag?(:heddle) %}
  require "../src/heddle"
{% end %}

# LLVM deletes allocations that nobody keeps, and stores that nobody reads. So the last of them stay in a ring, and their sum is printed.
class Kept
  class_property ring = Array(Pointer(String)).new(64, Pointer(String).null)
end

size, count, release = ARGV[0].to_i, ARGV[1].to_i, ARGV[2] == "free"

def measure(size, count, release)
  ring = Kept.ring.to_unsafe
  start = Time.monotonic
  count.times do |i|
    block = Pointer(String).malloc(size)
    ring[i & 63] = block
    GC.free(block.as(Void*)) if release
  end
  spent = (Time.monotonic - start).total_nanoseconds / count
  STDERR.puts Kept.ring.sum(0_u64) { |block| block.address & 0xffff }
  spent
end

measure(size, Math.min(count, 1000), true)
puts measure(size, count, release).round(2)
