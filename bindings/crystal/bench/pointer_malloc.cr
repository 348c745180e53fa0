# Times Pointer(String).malloc(SIZE); prints nanoseconds for each. Built three times by bench/compare.
#   usage: pointer_malloc SIZE COUNT keep|free
{% if flag?(:heddle) %}
  require "../src/heddle"
{% end %}

# Each pointer is stored where the optimiser can't see that nobody reads it: LLVM deletes allocations that nobody keeps.
class Sink
  class_property last = Pointer(Pointer(String)).null
end

size, count, release = ARGV[0].to_i, ARGV[1].to_i, ARGV[2] == "free"
Sink.last = Pointer(Pointer(String)).malloc(1)

def measure(size, count, release)
  start = Time.monotonic
  count.times do
    block = Pointer(String).malloc(size)
    Sink.last.value = block
    GC.free(block.as(Void*)) if release
  end
  (Time.monotonic - start).total_nanoseconds / count
end

measure(size, Math.min(count, 1000), true)
puts measure(size, count, release).round(2)
