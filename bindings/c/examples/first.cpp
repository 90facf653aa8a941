// Accounts: transactions that are repeated until they commit, a snapshot, and operations that are not waited for.

#include <iostream>
#include <thread>
#include <vector>

#include <tyr.hpp>

int main(int count, char **words) try {
    if (count != 2) {
        std::cerr << "usage: " << words[0] << " STORE\n";
        return 2;
    }
    tyr::Options options;
    options.raw.segment_size = 1 << 20;
    tyr::Store store = tyr::Store::open(words[1], options);
    tyr::Keyspace accounts = store.create_keyspace("accounts", {});

    // Written at once, and only then waited for.
    std::vector<tyr::Operation<tyr::Nothing>> writes;
    const std::string amount = "100";
    for (const char *name : {"anna", "bert", "carl"}) writes.push_back(accounts.put_async(name, amount));
    for (auto &write : writes) write.get();

    tyr::Snapshot before = store.snapshot({&accounts});

    // From anna to bert, by several threads; a conflict has it run again.
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            store.run([&](tyr::Transaction &transaction) {
                int anna = std::stoi(transaction.read(accounts, "anna").str());
                int bert = std::stoi(transaction.read(accounts, "bert").str());
                transaction.put(accounts, "anna", std::to_string(anna - 10));
                transaction.put(accounts, "bert", std::to_string(bert + 10));
            });
        });
    }
    for (auto &thread : threads) thread.join();
    std::cout << "anna has " << accounts.read("anna").view() << ", bert has " << accounts.read("bert").view()
              << "\n";
    std::cout << "before, anna had " << before.read(accounts, "anna").view() << "\n";

    tyr::Number old = accounts.transform("visits", 0, tyr::Transform::add(uint64_t{5}));
    std::cout << "visits were " << old.as<uint64_t>() << "\n";

    tyr::List list = accounts.scan();
    for (const tyr::Item &item : list) std::cout << item.key << " has " << item.stat.size << " bytes\n";

    try {
        accounts.create("anna");
    } catch (const tyr::Error &error) {
        std::cout << error.name() << ": " << error.what() << "\n";
    }
    before.reset();
    store.drop_keyspace("accounts");
    accounts.reset();
    store.close();
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
