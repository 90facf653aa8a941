// What the objects of C++ do by themselves, besides passing calls on.
//
//   objects SCRATCH [TYR]
//
// With the command also what they do on a cluster.

#include "cluster.hpp"

#include <tyr.hpp>

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sys/socket.h>
#include <unistd.h>

#define HOLDS(condition)                                                                                    \
    do {                                                                                                    \
        if (!(condition)) {                                                                                 \
            std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                            \
            std::exit(1);                                                                                   \
        }                                                                                                   \
    } while (0)

using std::chrono::milliseconds;

// Strings, texts, and places are not the memory that they lie in.
template <class T> constexpr bool are_bytes = std::is_constructible_v<tyr::Bytes, const std::vector<T> &>;
template <class T> constexpr bool is_room = std::is_constructible_v<tyr::Buffers, std::vector<T> &>;
enum class Level : uint16_t { Low, High };
static_assert(are_bytes<char> && are_bytes<std::byte> && are_bytes<double> && are_bytes<Level>);
static_assert(!are_bytes<std::string> && !are_bytes<std::string_view> && !are_bytes<const char *>);
static_assert(!are_bytes<tyr_bytes> && !are_bytes<tyr::Bytes> && !are_bytes<bool>);
static_assert(is_room<char> && is_room<uint64_t> && is_room<Level> && is_room<tyr_buffer>);
static_assert(!is_room<std::string> && !is_room<std::vector<char>> && !is_room<char *>);

template <class F> static int failure_of(F &&call) {
    try {
        call();
    } catch (const tyr::Error &error) {
        return error.status();
    }
    return TYR_OK;
}

static void vectors_are_parts(tyr::Keyspace &files) {
    files.put("parts", std::vector<std::string>{"one ", "longer than what a string keeps in itself ", "three"});
    HOLDS(files.read("parts").view() == "one longer than what a string keeps in itself three");
    files.put("parts", std::vector<std::string_view>{"a", "b"});
    files.append("parts", std::vector<const char *>{"c", "d"});
    files.append("parts", std::vector<tyr::Bytes>{"e", std::string("f")});
    files.append("parts", std::vector<tyr_bytes>{tyr_text("g")});
    files.append("parts", {"h", "i"});
    files.append("parts", std::vector<char>{'j'});
    HOLDS(files.read("parts").view() == "abcdefghij");
    files.put("parts", std::vector<std::string>{});
    HOLDS(files.stat("parts").size() == 0);
}

static void who_rolls_back_in_a_run_commits_nothing(tyr::Store &store, tyr::Keyspace &files) {
    files.put("account", "10");
    tyr::Receipt receipt = store.run([&](tyr::Transaction &transaction) {
        transaction.put(files, "account", "0");
        transaction.rollback();
    });
    HOLDS(!receipt);
    HOLDS(files.read("account").view() == "10");
    receipt = store.run([&](tyr::Transaction &transaction) { transaction.put(files, "account", "9"); });
    HOLDS(receipt && receipt.number() > 0);
    HOLDS(files.read("account").view() == "9");
}

// Where connections are made and nobody answers.
static int silence(std::string &url) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET, address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    HOLDS(bind(listener, reinterpret_cast<sockaddr *>(&address), size) == 0 && listen(listener, 16) == 0);
    HOLDS(getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size) == 0);
    url = "tyr://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    return listener;
}

static void who_waits_for_one_is_not_told_of_another(tyr::Keyspace &files) {
    std::string url;
    int listener = silence(url);
    tyr::Queue queue;
    tyr::Options options;
    options.raw.deadline_ms = 600000;
    auto never = tyr::Store::open_async(url, options, &queue);
    auto soon = files.exists_async("account", &queue);
    const auto begun = std::chrono::steady_clock::now();
    HOLDS(!never.wait_for(milliseconds(250)));
    HOLDS(std::chrono::steady_clock::now() - begun >= milliseconds(250));
    HOLDS(soon.is_over() && soon.get());
    HOLDS(!never.wait_for(milliseconds(0)) && !never.wait_for(milliseconds(-1)));
    HOLDS(never.cancel());
    HOLDS(never.wait_for(milliseconds::max()));
    HOLDS(failure_of([&] { never.get(); }) == TYR_CANCELLED);
    close(listener);
}

static void no_operation_is_an_error(tyr::Keyspace &files) {
    tyr::Operation<tyr::Flag> none, begun = files.exists_async("account");
    tyr::Operation<tyr::Flag> moved = std::move(begun);
    for (auto *operation : {&none, &begun}) {
        HOLDS(failure_of([&] { operation->is_over(); }) == TYR_INVALID);
        HOLDS(failure_of([&] { operation->wait(); }) == TYR_INVALID);
        HOLDS(failure_of([&] { operation->wait_for(milliseconds(1)); }) == TYR_INVALID);
        HOLDS(failure_of([&] { operation->get(); }) == TYR_INVALID);
        HOLDS(failure_of([&] { operation->then([] {}); }) == TYR_INVALID);
        HOLDS(!operation->cancel());
    }
    HOLDS(moved.get());
}

static void snapshots_say_when_they_were_taken(tyr::Store &store) {
    tyr::Settings settings;
    settings.multi_version = 1;
    tyr::Keyspace kept = store.create_keyspace("kept", settings);
    store.create_snapshot(kept, "monday");
    tyr::List list = store.snapshots(kept);
    HOLDS(list.size() == 1 && list[0].key == "monday");
    HOLDS(list[0].taken > 1500000000 && list[0].taken <= static_cast<uint64_t>(time(nullptr)));
}

static void a_close_that_does_not_begin_leaves_the_store(tyr::Store &store) {
    tyr::Queue freed, queue;
    HOLDS(tyr_queue_free(freed.raw()) == TYR_OK);
    HOLDS(failure_of([&] { store.close_async(&freed); }) == TYR_INVALID);
    HOLDS(store && !store.is_cluster());
    store.close_async(&queue).get();
    HOLDS(!store);
}

// What a body says may come from states that do not fit together. If nobody can be asked, that is what the run says.
static void what_nobody_could_check_is_unavailable(const std::string &command, const std::string &directory) {
    std::filesystem::create_directory(directory);
    Cluster cluster(command, directory);
    tyr::Store store = tyr::Store::open(cluster.url());
    tyr::Keyspace files = store.create_keyspace("files", {});
    files.put("one", "1");
    files.put("two", "2");
    const std::function<void()> ends[] = {
        [] { throw std::logic_error("of the program"); },
        [] { throw tyr::Error(TYR_NOT_FOUND, "of the body"); },
    };
    for (const auto &end : ends) {
        cluster.heal();
        HOLDS(files.read("one").view() == "1" && files.read("two").view() == "2");
        tyr::Store hasty = store.within(milliseconds(1000));
        int status = failure_of([&] {
            hasty.run([&](tyr::Transaction &transaction) {
                transaction.read(files, "one");
                transaction.read(files, "two");
                for (int node = 0; node < 3; ++node) cluster.kill(node);
                end();
            });
        });
        HOLDS(status == TYR_UNAVAILABLE);
    }
}

int main(int count, char **words) {
    HOLDS(count == 2 || count == 3);
    tyr::Options options;
    options.raw.segment_size = 1 << 20;
    tyr::Store store = tyr::Store::open(std::string(words[1]) + "/store", options);
    {
        tyr::Keyspace files = store.create_keyspace("files", {});
        vectors_are_parts(files);
        who_rolls_back_in_a_run_commits_nothing(store, files);
        who_waits_for_one_is_not_told_of_another(files);
        no_operation_is_an_error(files);
        snapshots_say_when_they_were_taken(store);
    }
    a_close_that_does_not_begin_leaves_the_store(store);
    if (count == 3) what_nobody_could_check_is_unavailable(words[2], std::string(words[1]) + "/cluster");
    std::puts("the objects hold");
    return 0;
}
