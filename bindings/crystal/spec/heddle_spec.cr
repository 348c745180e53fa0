require "json"
require "spec"
require "weak_ref"
require "../src/heddle"

def resident : Int64
  File.read("/proc/self/statm").split[1].to_i64 * 4096
end

# Leaves used memory of many sizes behind, so that the next blocks stand on it.
def soil
  blocks = (0..14).flat_map { |power| Array.new(8) { GC.malloc_atomic(16 << power).as(UInt8*).tap { |p| Slice.new(p, 16 << power).fill(0xA5) } } }
  blocks.each { |p| GC.free(p.as(Void*)) }
end

def zero?(pointer : Pointer, bytes) : Bool
  Slice.new(pointer.as(UInt8*), bytes).all?(&.zero?)
end

class Node
  getter value : Int64
  property following : Node?
  @unset : String?
  @padding = StaticArray(UInt8, 200).new(0)

  def initialize(@value)
  end

  def untouched?
    @unset.nil? && @following.nil? && @padding.all?(&.zero?)
  end
end

struct Empty
end

describe Heddle do
  it "is where objects, strings, arrays, hashes, closures and fibers live" do
    GC.is_heap_ptr(Node.new(1).as(Void*)).should be_true
    GC.is_heap_ptr(("abc" * rand(10..20)).as(Void*)).should be_true
    GC.is_heap_ptr(Array.new(100) { |i| i }.to_unsafe.as(Void*)).should be_true
    GC.is_heap_ptr({1 => 2}.as(Void*)).should be_true
    captured = rand(10)
    GC.is_heap_ptr(->{ captured += 1 }.closure_data).should be_true
    GC.is_heap_ptr(Fiber.current.as(Void*)).should be_true
    GC.is_heap_ptr(pointerof(captured).as(Void*)).should be_true # a captured variable lies in its closure
    GC.is_heap_ptr("literal".as(Void*)).should be_false
    GC.is_heap_ptr(Pointer(Void).null).should be_false
  end

  it "says its version" do
    Heddle.version.should match(/^\d+\.\d+\.\d+ \(/)
  end

  describe "clears where it is promised:" do
    {% for type in [UInt8, Int32, String, Void] %}
      it "Pointer({{type}}).malloc" do
        15.times do |power|
          soil
          bytes = (2 << power) * {{type == Void ? 1 : "sizeof(#{type})".id}}
          zero?(Pointer({{type}}).malloc(2 << power), bytes).should be_true
        end
      end
    {% end %}

    {% for name in %w(malloc calloc calloc_atomic) %}
      it "GC.{{name.id}}" do
        15.times do |power|
          soil
          zero?(GC.{{name.id}}(24 << power), 24 << power).should be_true
        end
      end
    {% end %}

    it "the functions that a newer compiler calls" do
      soil
      zero?(__crystal_calloc64(5000_u64), 5000).should be_true
      zero?(__crystal_calloc_atomic64(5000_u64), 5000).should be_true
      GC.is_heap_ptr(__crystal_calloc64(0_u64)).should be_true
    end

    it "objects" do
      100.times do
        soil
        Node.new(7).untouched?.should be_true
      end
    end

    it "what Heddle.recalloc adds" do
      [{8, 24}, {100, 4000}, {4000, 4010}, {300, 100}, {70_000, 90_000}, {70_000, 5_000_000}, {5_000_000, 6_000_000}].each do |old, new|
        soil
        block = Slice.new(Heddle.malloc_uninitialized(old).as(UInt8*), old)
        block.fill(0x5A)
        grown = Slice.new(Heddle.recalloc(block.to_unsafe.as(Void*), old, new).as(UInt8*), new)
        kept = Math.min(old, new)
        grown[0, kept].all? { |byte| byte == 0x5A }.should be_true
        grown[kept..].all?(&.zero?).should be_true
        GC.free(grown.to_unsafe.as(Void*))
      end
    end
  end

  it "touches no fresh memory" do
    before = resident
    blocks = Array.new(4) { Pointer(String).malloc(2 ** 24) }
    (resident - before).should be < 2 << 20
    blocks.each { |block| GC.free(block.as(Void*)) }
  end

  it "clears a large block that was used, when it comes again" do
    5.times do
      block = Slice.new(Pointer(UInt64).malloc(2 ** 21), 2 ** 21)
      block.all?(&.zero?).should be_true
      block.fill(1_u64)
      GC.free(block.to_unsafe.as(Void*))
    end
  end

  it "grows blocks" do
    bytes = 16
    block = Pointer(UInt8).malloc(bytes)
    bytes.times { |i| block[i] = i.to_u8! }
    while bytes < 8 << 20
      block = block.realloc(bytes * 2)
      (bytes...bytes * 2).each { |i| block[i] = (i * 7).to_u8! }
      bytes *= 2
    end
    (16...bytes).all? { |i| block[i] == (i * 7).to_u8! }.should be_true
    block = block.realloc(16)
    (0...16).all? { |i| block[i] == i.to_u8! }.should be_true
    Heddle.usable_size(block.as(Void*)).should be < 64
    GC.free(block.as(Void*))
  end

  it "gives memory back" do
    block = Slice.new(Pointer(UInt64).malloc(2 ** 22), 2 ** 22)
    block.fill(1_u64)
    full = resident
    GC.free(block.to_unsafe.as(Void*))
    GC.collect
    (full - resident).should be > 30 << 20
  end

  it "counts what is live" do
    before, total = Heddle.stats, GC.stats.total_bytes
    block = Pointer(UInt8).malloc(10_000_000)
    (Heddle.stats.live - before.live).should be_close(10_000_000, 100_000)
    (GC.stats.total_bytes - total).should be_close(10_000_000, 100_000)
    GC.stats.heap_size.should be >= GC.stats.free_bytes
    GC.prof_stats.heap_size.should be > 10_000_000
    GC.free(block.as(Void*))
    (Heddle.stats.live.to_i64 - before.live.to_i64).abs.should be < 100_000
  end

  describe "says what is wrong:" do
    it "too much memory" do
      expect_raises(Heddle::OutOfMemoryError, "no memory for") { Pointer(String).malloc(2_u64 ** 61) } # 8 x 2 ** 61 is 0 in 64 bits
      expect_raises(Heddle::OutOfMemoryError) { Pointer(UInt8).malloc(UInt64::MAX) }
      expect_raises(Heddle::OutOfMemoryError) { Pointer(String).malloc_uninitialized(2_u64 ** 61) }
      expect_raises(Heddle::OutOfMemoryError) { GC.malloc(UInt64::MAX) }
      expect_raises(Heddle::OutOfMemoryError) { GC.malloc_atomic(UInt64::MAX // 2 + 1) }
      expect_raises(Heddle::OutOfMemoryError) { GC.calloc(UInt64::MAX) }
    end

    it "a block that can't grow, which stays" do
      block = Pointer(UInt8).malloc(100)
      block[99] = 42
      expect_raises(Heddle::OutOfMemoryError) { block.realloc(UInt64::MAX // 2 + 1) }
      expect_raises(Heddle::OutOfMemoryError) { Pointer(String).malloc(1).realloc(2_u64 ** 61) }
      block[99].should eq 42
      GC.free(block.as(Void*))
    end

    it "negative sizes" do
      expect_raises(ArgumentError) { Pointer(String).malloc(-1) }
      expect_raises(ArgumentError) { Pointer(String).malloc_uninitialized(-1) }
      expect_raises(ArgumentError) { GC.calloc(-1) }
    end
  end

  it "takes elements of no bytes" do
    nothing = [] of Nil
    1000.times { nothing << nil }
    nothing.size.should eq 1000
    empty = [] of Empty
    1000.times { empty << Empty.new }
    empty.size.should eq 1000
    Pointer(Empty).malloc_uninitialized(10).null?.should be_false
  end

  it "gives every block of no bytes its own address" do
    GC.malloc(0).should_not eq GC.malloc(0)
    Pointer(Int32).malloc(0).null?.should be_false
  end

  it "aligns to 16" do
    (1..300).all? { |bytes| GC.malloc_atomic(bytes).address % 16 == 0 }.should be_true
  end

  it "passes a long list of objects" do
    first = Node.new(0)
    last = first
    (1..100_000).each { |i| last = last.following = Node.new(i.to_i64) }
    sum, node = 0_i64, first
    while node
      sum += node.value
      node = node.following
    end
    sum.should eq 100_000_i64 * 100_001 // 2
  end

  it "passes strings and hashes" do
    words = Hash(String, Array(Int32)).new { |hash, key| hash[key] = [] of Int32 }
    50_000.times { |i| words["key #{i % 1000}"] << i }
    words.size.should eq 1000
    words["key 7"].should eq (0...50).map { |i| i * 1000 + 7 }
    text = String.build { |io| 20_000.times { |i| io << i << ' ' } }
    text.split.map(&.to_i).sum.should eq 20_000 * 19_999 // 2
    text.gsub(/1(\d)/, "<\\1>").count('<').should eq text.scan(/1\d/).size
  end

  it "passes what the standard library does with memory itself" do
    WeakRef.new(Node.new(5)).value.try(&.value).should eq 5
    JSON.parse(%({"a": [1, 2, {"b": "c"}]}))["a"][2]["b"].should eq "c"
    `echo child`.should eq "child\n"
  end

  it "passes fibers and channels" do
    channel = Channel({Int32, String}).new(16)
    200.times { |i| spawn { channel.send({i, "fiber " * (i % 7)}) } }
    got = Array.new(200) { channel.receive }
    got.map(&.[0]).sort.should eq (0...200).to_a
    got.all? { |i, text| text == "fiber " * (i % 7) }.should be_true
  end

  it "passes threads" do
    threads = Array.new(4) { |t| Thread.new { Array.new(20_000) { |i| "#{t}:#{i}" }.uniq!.size.should eq 20_000 } }
    threads.each(&.join)
  end
end
