/* What C++ programs do with memory, by their operators. sized: Larson's server with new and sized delete; heirs: the same as the
 * literature runs it, with more blocks, and threads that start their successors themselves; crowd: with ten times as many; objects: trees
 * of virtual classes owned by unique_ptr, replaced at random; containers: words counted in hash maps, ordered maps and lists that come and
 * go. */
#include "common.h"

#include <semaphore.h>

#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

/* ---- sized: as larson.c, each lane's blocks pass from thread to thread ---- */

enum { SLOTS = 1000, LOW = 8, HIGH = 1000, GENERATIONS = 10 };

struct server {
    void *block[SLOTS];
    size_t bytes[SLOTS];
    bench_rng rng;
    size_t replacements;
};

void fill(server &lane, size_t slot)
{
    lane.bytes[slot] = rng_between(&lane.rng, LOW, HIGH);
    lane.block[slot] = ::operator new(lane.bytes[slot]);
    stamp_write(lane.block[slot], lane.bytes[slot]);
}

void drop(server &lane, size_t slot)
{
    stamp_check(lane.block[slot], lane.bytes[slot]);
    ::operator delete(lane.block[slot], lane.bytes[slot]);
}

void *run_generation(void *argument)
{
    server &lane = *static_cast<server *>(argument);
    for (size_t i = 0; i < lane.replacements; i++) {
        size_t slot = rng_below(&lane.rng, SLOTS);
        drop(lane, slot);
        fill(lane, slot);
    }
    return nullptr;
}

void run_server(unsigned number, void *shared)
{
    for (int generation = 0; generation < GENERATIONS; generation++) {
        pthread_t id;
        CHECK(pthread_create(&id, nullptr, run_generation, static_cast<server *>(shared) + number) == 0);
        CHECK(pthread_join(id, nullptr) == 0);
    }
}

void run_sized(const bench_args *args)
{
    size_t replacements = bench_scaled(args, 1500e3, 10);
    std::vector<server> lanes(args->threads);
    for (unsigned i = 0; i < args->threads; i++) {
        lanes[i].rng = rng_make(args->seed, i);
        lanes[i].replacements = replacements;
        for (size_t slot = 0; slot < SLOTS; slot++)
            fill(lanes[i], slot);
    }
    double seconds = bench_threads(args->threads, run_server, lanes.data());
    for (server &lane : lanes)
        for (size_t slot = 0; slot < SLOTS; slot++)
            drop(lane, slot);
    bench_result(args, (double)replacements * GENERATIONS * args->threads, seconds, "");
}

/* ---- heirs: 5,000 blocks a lane (crowd: 50,000, more than caches hold), made and shuffled by the main thread. A thread replaces some,
 * chosen and sized by remainders, writes two bytes of each, starts the one that takes its place, and ends. It does not look at what it
 * replaces; the last sweep does. ---- */

enum { HEIRS = 5000, CROWD = 50000, TURNS = 20 };

struct heir_lane {
    char **block;
    size_t *bytes;
    size_t count, range, replacements;
    bench_rng random;
    unsigned turns;
    sem_t done;
};

void take_new(heir_lane &lane, size_t slot)
{
    lane.bytes[slot] = LOW + rng_next(&lane.random) % lane.range;
    lane.block[slot] = new char[lane.bytes[slot]];
    lane.block[slot][0] = static_cast<char>(lane.bytes[slot]);
    lane.block[slot][1] = static_cast<char>(lane.bytes[slot] >> 8);
}

void *run_heir(void *argument)
{
    heir_lane &lane = *static_cast<heir_lane *>(argument);
    for (size_t i = 0; i < lane.replacements; i++) {
        size_t slot = rng_next(&lane.random) % lane.count;
        ::operator delete[](lane.block[slot], lane.bytes[slot]);
        take_new(lane, slot);
    }
    pthread_t heir;
    if (--lane.turns == 0) {
        sem_post(&lane.done);
    } else {
        CHECK(pthread_create(&heir, nullptr, run_heir, &lane) == 0);
        CHECK(pthread_detach(heir) == 0);
    }
    return nullptr;
}

void run_first_heir(unsigned number, void *shared)
{
    heir_lane &lane = static_cast<heir_lane *>(shared)[number];
    pthread_t first;
    CHECK(pthread_create(&first, nullptr, run_heir, &lane) == 0);
    CHECK(pthread_detach(first) == 0);
    while (sem_wait(&lane.done) != 0)
        CHECK(errno == EINTR);
}

void run_heirs(const bench_args *args)
{
    size_t count = strcmp(args->mode, "crowd") == 0 ? CROWD : HEIRS;
    std::vector<char *> blocks(count * args->threads);
    std::vector<size_t> bytes(blocks.size());
    std::vector<heir_lane> lanes(args->threads);
    for (unsigned i = 0; i < args->threads; i++) {
        heir_lane &lane = lanes[i];
        size_t first = count * i, replacements = bench_scaled(args, 750e3, 10);
        lane = {&blocks[first], &bytes[first], count, HIGH - LOW, replacements, rng_make(args->seed, i), TURNS, {}};
        CHECK(sem_init(&lane.done, 0, 0) == 0);
        for (size_t slot = 0; slot < count; slot++)
            take_new(lane, slot);
    }
    bench_rng rng = rng_make(args->seed, args->threads);
    for (size_t left = blocks.size(); left > 1; left--) {
        size_t other = rng_below(&rng, left);
        std::swap(blocks[other], blocks[left - 1]);
        std::swap(bytes[other], bytes[left - 1]);
    }
    double seconds = bench_threads(args->threads, run_first_heir, lanes.data());
    for (size_t slot = 0; slot < blocks.size(); slot++) {
        CHECK(blocks[slot][0] == static_cast<char>(bytes[slot]) && blocks[slot][1] == static_cast<char>(bytes[slot] >> 8));
        ::operator delete[](blocks[slot], bytes[slot]);
    }
    bench_result(args, (double)lanes[0].replacements * TURNS * args->threads, seconds, "");
}

/* ---- objects ---- */

struct node {
    virtual ~node() = default;
    virtual size_t count() const = 0;
};

struct leaf : node {
    uint64_t key;
    explicit leaf(uint64_t k) : key(k) {}
    size_t count() const override { return 1; }
};

struct text : node {
    std::string words;
    explicit text(size_t bytes) : words(bytes, 'w') {}
    size_t count() const override { return words.back() == 'w' ? 1 : 0; }
};

struct branch : node {
    std::vector<std::unique_ptr<node>> children;
    size_t count() const override
    {
        size_t sum = 1;
        for (const auto &child : children)
            sum += child->count();
        return sum;
    }
};

/* So many nodes, of which about a fifth are branches. */
std::unique_ptr<node> grow(bench_rng *rng, size_t nodes)
{
    if (nodes <= 1) {
        if (rng_below(rng, 4) == 0)
            return std::make_unique<text>(rng_between(rng, 1, 120));
        return std::make_unique<leaf>(rng_next(rng));
    }
    auto made = std::make_unique<branch>();
    for (size_t left = nodes - 1; left > 0;) {
        size_t share = left <= 4 ? 1 : 1 + rng_below(rng, left / 2);
        made->children.push_back(grow(rng, share));
        left -= share;
    }
    return made;
}

void object_lane(unsigned lane, void *shared)
{
    const bench_args *args = static_cast<const bench_args *>(shared);
    enum { TREES = 400, MOST = 60 };
    bench_rng rng = rng_make(args->seed, lane);
    std::vector<std::pair<std::unique_ptr<node>, size_t>> trees(TREES);
    for (size_t steps = bench_scaled(args, 100e3, 10); steps > 0; steps--) {
        auto &tree = trees[rng_below(&rng, TREES)];
        CHECK(!tree.first || tree.first->count() == tree.second);
        tree.second = rng_between(&rng, 1, MOST);
        tree.first = grow(&rng, tree.second);
    }
}

void run_objects(const bench_args *args)
{
    double seconds = bench_threads(args->threads, object_lane, const_cast<bench_args *>(args));
    bench_result(args, (double)bench_scaled(args, 100e3, 10) * args->threads, seconds, "");
}

/* ---- containers ---- */

void container_lane(unsigned lane, void *shared)
{
    const bench_args *args = static_cast<const bench_args *>(shared);
    enum { WORDS = 3000, RECENT = 500 };
    bench_rng rng = rng_make(args->seed, lane);
    for (size_t documents = bench_scaled(args, 300, 1); documents > 0; documents--) {
        std::unordered_map<std::string, std::vector<uint32_t>> places;
        std::map<std::string, size_t> sorted;
        std::list<std::string> recent;
        for (uint32_t at = 0; at < WORDS; at++) {
            size_t which = rng_below(&rng, 1 + rng_below(&rng, 1500)); /* few words are frequent */
            std::string word = "word-" + std::to_string(which);
            if (which % 5 == 0)
                word += "-which-is-too-long-to-stand-in-the-string-itself";
            places[word].push_back(at);
            recent.push_back(std::move(word));
            if (recent.size() > RECENT)
                recent.pop_front();
        }
        size_t sum = 0;
        for (const auto &entry : places) {
            sum += entry.second.size();
            sorted[entry.first] = entry.second.size();
        }
        CHECK(sum == WORDS && sorted.size() == places.size() && recent.size() == RECENT);
    }
}

void run_containers(const bench_args *args)
{
    double seconds = bench_threads(args->threads, container_lane, const_cast<bench_args *>(args));
    bench_result(args, (double)bench_scaled(args, 300, 1) * args->threads, seconds, "");
}

} // namespace

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {
        {"sized", run_sized}, {"heirs", run_heirs}, {"crowd", run_heirs}, {"objects", run_objects}, {"containers", run_containers}};
    bench_args args = bench_parse(argc, argv, "cxx");
    return BENCH_MODES(&args, modes);
}
