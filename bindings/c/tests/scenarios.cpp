// Runs the scenarios of bindings/scenarios in three ways: waiting, with a queue, and with callbacks.
//
//   scenarios LIST.json blocking|queue|callback directory|cluster SCRATCH [TYR]

#include "cluster.hpp"
#include "json.hpp"

#include <tyr.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <thread>

using tyr::Bytes;

enum class Way { Blocking, Queue, Callback };

static Way way;
static std::string scratch;
static Cluster *cluster;

// A result in the words of the scenarios, written in one way only.
static std::string hex(std::string_view bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string all = "x";
    for (unsigned char byte : bytes) {
        all += digits[byte >> 4];
        all += digits[byte & 15];
    }
    return all;
}

static std::string bytes_of(const Json &value) {
    if (value.kind == Json::Text) return value.text;
    std::string all;
    if (const Json *digits = value.find("hex")) {
        for (size_t at = 0; at + 1 < digits->text.size(); at += 2)
            all += static_cast<char>(std::stoi(digits->text.substr(at, 2), nullptr, 16));
        return all;
    }
    for (uint64_t times = value["times"].number(); times > 0; --times) all += value["repeat"].text;
    return all;
}

static tyr::Number number_of(const Json &value) {
    const auto &[type, number] = value.fields.at(0);
    if (type == "u8") return static_cast<uint8_t>(number.number());
    if (type == "u16") return static_cast<uint16_t>(number.number());
    if (type == "u32") return static_cast<uint32_t>(number.number());
    if (type == "u64") return static_cast<uint64_t>(number.number());
    if (type == "i8") return static_cast<int8_t>(number.number());
    if (type == "i16") return static_cast<int16_t>(number.number());
    if (type == "i32") return static_cast<int32_t>(number.number());
    if (type == "i64") return static_cast<int64_t>(number.number());
    if (type == "f32") return std::stof(number.text);
    return std::stod(number.text);
}

static bool same(const tyr::Number &one, const tyr::Number &other) {
    return one.type() == other.type() && one.raw().value.u64 == other.raw().value.u64;
}

// What a step resulted in.
struct Told {
    enum Kind { Nothing, Flag, Number, Text, Bytes, Operand, Fields, Map, List, Committed } kind = Nothing;
    uint64_t number = 0;
    std::string text;
    tyr::Number operand;
    std::map<std::string, Told> fields;
    std::vector<Told> items;

    static Told of(Kind kind, uint64_t number) {
        Told told;
        told.kind = kind;
        told.number = number;
        return told;
    }
    static Told of(Kind kind, std::string_view text) {
        Told told;
        told.kind = kind;
        told.text = text;
        return told;
    }
    static Told of(const tyr::Number &operand) {
        Told told;
        told.kind = Operand;
        told.operand = operand;
        return told;
    }
    static Told of(const tyr::Content &content) { return content ? of(Bytes, content.view()) : Told(); }
    static Told of(const tyr::Stat &stat) {
        Told told, attributes;
        attributes.kind = Map;
        for (const tyr::Item &item : stat.attributes)
            attributes.fields[std::string(item.key)] = of(Bytes, item.value);
        told.kind = Fields;
        told.fields["size"] = of(Number, stat.size());
        told.fields["version"] = of(Number, stat.version());
        told.fields["attributes"] = attributes;
        return told;
    }
    static Told of(const tyr::Blob &blob) {
        Told told = of(blob.stat);
        told.fields["bytes"] = of(blob.content);
        return told;
    }
    static Told entries(const tyr::List &list) {
        Told told;
        told.kind = List;
        for (const tyr::Item &item : list) {
            Told one;
            one.kind = Fields;
            one.fields["key"] = of(Bytes, item.key);
            one.fields["size"] = of(Number, item.stat.size);
            told.items.push_back(one);
        }
        return told;
    }

    bool is(const Json &wanted, const std::map<std::string, Told> &kept) const {
        if (const Json *name = wanted.find("kept")) {
            const Told &other = kept.at(name->text);
            return kind == other.kind && number == other.number && text == other.text;
        }
        switch (kind) {
        case Nothing: return wanted.kind == Json::Null;
        case Flag: return wanted.kind == (number ? Json::True : Json::False);
        case Number: return wanted.kind == Json::Number && wanted.number() == number;
        case Text: return wanted.kind == Json::Text && wanted.text == text;
        case Bytes: return wanted.kind != Json::Null && bytes_of(wanted) == text;
        case Operand: return same(number_of(wanted), operand);
        case Map:
            if (wanted.fields.size() != fields.size()) return false;
            [[fallthrough]];
        case Fields:
            for (auto &[name, value] : wanted.fields)
                if (!fields.count(name) || !fields.at(name).is(value, kept)) return false;
            return true;
        case Committed:
            if (wanted.kind == Json::Text) return wanted.text == "committed";
            for (auto &[name, value] : wanted["committed"].fields)
                if (!fields.count(name) || !fields.at(name).is(value, kept)) return false;
            return true;
        default:
            if (wanted.items.size() != items.size()) return false;
            for (size_t at = 0; at < items.size(); ++at)
                if (!items[at].is(wanted.items[at], kept)) return false;
            return true;
        }
    }
    std::string show() const {
        std::string all = std::to_string(kind) + ":" + std::to_string(number) + ":" + hex(text.substr(0, 100));
        for (auto &[name, value] : fields) all += " " + name + "=" + value.show();
        for (auto &item : items) all += " [" + item.show() + "]";
        return all;
    }
};

// A step that ends the body of a run.
struct Passed {};

class Stage {
public:
    std::map<std::string, std::shared_ptr<tyr::Store>> stores;
    std::map<std::string, std::shared_ptr<tyr::Keyspace>> keyspaces;
    std::map<std::string, std::shared_ptr<tyr::Snapshot>> snapshots;
    std::map<std::string, tyr::Transaction> transactions;
    std::map<std::string, tyr::Pending> pendings;
    std::map<std::string, uint32_t> slots;
    std::map<std::string, Told> kept;
    std::string place;
    size_t worker = 0;
    uint64_t attempt = 0;
    bool is_cancelling = false;
    tyr::Queue queue;

    void expect(const Json &step) {
        if (const Json *only = step.find("try"); only && only->number() != attempt) return;
        const std::string &what = step["do"].text;
        if (what == "together") return together(step);
        if (what == "forget") return forget();
        if (what == "server.kill") return cluster->kill(static_cast<int>(step["node"].number()) - 1);
        if (what == "server.start") return cluster->restart(static_cast<int>(step["node"].number()) - 1);
        if (what == "directory.replace") return replace(step["find"].text, step["with"].text);
        if (what == "cancel") {
            is_cancelling = true;
            try {
                perform(step["step"]);
            } catch (const tyr::Error &) {
            }
            is_cancelling = false;
            return;
        }
        Told told;
        const Json *fails = step.find("fails");
        const Json *gives = step.find("gives");
        try {
            do {
                told = perform(step);
            } while (fails && gives && told.is(*gives, kept));
        } catch (const tyr::Error &error) {
            if (step.find("passes")) throw;
            if (fails && fails->text == error.name()) return;
            if (gives && gives->kind == Json::Text && gives->text == error.name()) return;
            throw std::runtime_error(step.show() + " fails: " + std::string(error.name()) + ": " + error.what());
        }
        if (fails) throw std::runtime_error(step.show() + " succeeds: " + told.show());
        if (gives && !told.is(*gives, kept))
            throw std::runtime_error(step.show() + " is told " + told.show());
        if (const Json *name = step.find("keep"))
            kept[name->text] = told.kind == Told::Fields ? told.fields.at("version") : told;
    }

    void forget() {
        transactions.clear();
        pendings.clear();
        snapshots.clear();
        keyspaces.clear();
        stores.clear();
    }

private:
    // Has a call done in the way that is tested.
    template <class T, class N, class L> T call(N now, L later) {
        if (way == Way::Blocking) return now();
        tyr::Operation<T> operation = later(way == Way::Queue ? &queue : nullptr);
        if (is_cancelling) operation.cancel();
        return operation.get();
    }
#define CALL(T, OBJECT, METHOD, ...)                                                                        \
    call<T>([&] { return (OBJECT).METHOD(__VA_ARGS__); },                                                   \
            [&](tyr::Queue *queue) { return (OBJECT).METHOD##_async(__VA_ARGS__, queue); })
#define CALL0(T, OBJECT, METHOD)                                                                            \
    call<T>([&] { return (OBJECT).METHOD(); }, [&](tyr::Queue *queue) { return (OBJECT).METHOD##_async(queue); })

    static std::string named(const Json &step, const std::string &field, const std::string &usual) {
        const Json *name = step.find(field);
        return name ? name->text : usual;
    }
    std::string key_of(const Json &step) const {
        std::string key = bytes_of(step["key"]);
        size_t at = key.find("{worker}");
        return at == std::string::npos ? key : key.replace(at, 8, std::to_string(worker));
    }
    static std::string optional_bytes(const Json &step, const std::string &name) {
        const Json *value = step.find(name);
        return value ? bytes_of(*value) : "";
    }
    static std::pair<uint64_t, uint64_t> range_of(const Json &step) {
        const Json *range = step.find("range");
        if (!range) return {0, TYR_END};
        const Json &end = range->items.at(1);
        // The largest number stands for the end of the blob here; one less is past every bound, too.
        uint64_t last = end.kind == Json::Null ? TYR_END : std::min(end.number(), TYR_END - 1);
        return {range->items.at(0).number(), last};
    }
    static tyr::Settings settings_of(const Json &named) {
        tyr::Settings settings;
        for (auto &[name, value] : named.fields) {
            if (name == "chunk_size") settings.chunk_size = value.number();
            if (name == "multi_version") settings.multi_version = value.kind == Json::True;
            if (name == "quota") settings.quota = value.number();
            if (name == "durability") settings.durability = value.text == "memory" ? TYR_MEMORY : TYR_DISK;
        }
        return settings;
    }
    static tyr::Transform transform_of(const Json &step) {
        static const std::vector<std::string> ops = {"add", "multiply", "min",  "max",             "and",
                                                     "or",  "xor",      "swap", "compare-and-swap"};
        int op = static_cast<int>(std::find(ops.begin(), ops.end(), step["op"].text) - ops.begin());
        tyr::Number operand = number_of(step["operand"]);
        const Json *expected = step.find("expected");
        return {op, operand, expected ? number_of(*expected) : operand};
    }
    std::string path(const Json &step) const {
        const Json *given = step.find("place");
        if (given && (given->text[0] == '/' || given->text.rfind("tyr", 0) == 0)) return given->text;
        if (cluster) return cluster->url();
        return place + "/" + (given ? given->text : "store");
    }
    static uint64_t within(const Json &step, const std::string &name) {
        const Json *number = step.find(name);
        return number ? number->number() : 0;
    }

    // Reads into several buffers, so that those are tested too.
    template <class F> Told read_into(const Json &step, F read) {
        size_t size = step["size"].number();
        std::string all(size, '\0');
        size_t half = size / 2;
        tyr::Buffers buffers{tyr_buffer{all.data(), half}, tyr_buffer{all.data() + half, size - half}};
        uint64_t count = read(buffers);
        return Told::of(Told::Bytes, std::string_view(all).substr(0, count));
    }
    // Writes several parts, so that those are tested too.
    static tyr::Parts parts(const std::string &bytes) {
        if (bytes.size() % 2 == 0) return Bytes(bytes);
        size_t half = bytes.size() / 2;
        return {Bytes(bytes.data(), half), Bytes("", 0), Bytes(bytes.data() + half, bytes.size() - half)};
    }

    Told perform(const Json &step) {
        const std::string &what = step["do"].text;
        size_t dot = what.find('.');
        std::string noun = what.substr(0, dot), method = what.substr(dot + 1);
        if (noun == "store") return store(step, method);
        if (noun == "keyspace") return keyspace(step, method);
        if (noun == "transaction") return transaction(step, method);
        if (noun == "snapshot") return snapshot(step, method);
        tyr::Pending &pending = pendings.at(named(step, "on", "p"));
        return told(CALL0(tyr::Receipt, pending, outcome));
    }

    Told told(const tyr::Receipt &receipt) {
        Told all;
        all.kind = Told::Committed;
        for (auto &[name, slot] : slots) {
            try {
                all.fields[name] = Told::of(Told::Number, receipt.offset(slot));
            } catch (const tyr::Error &) {
                try {
                    all.fields[name] = Told::of(receipt.old(slot));
                } catch (const tyr::Error &) {
                }
            }
        }
        return all;
    }

    Told store(const Json &step, const std::string &method) {
        if (method == "open") {
            tyr::Options options;
            options.raw.segment_size = 1 << 20;
            options.raw.deadline_ms = within(step, "deadline_ms");
            options.raw.connect_timeout_ms = within(step, "connect_timeout_ms");
            std::string create = named(step, "create", "if-missing");
            options.raw.create = create == "new" ? TYR_CREATE_NEW
                                 : create == "never" ? TYR_CREATE_NEVER
                                                     : TYR_CREATE_IF_MISSING;
            std::string at = path(step);
            auto opened = call<tyr::Store>(
                [&] { return tyr::Store::open(at, options); },
                [&](tyr::Queue *queue) { return tyr::Store::open_async(at, options, queue); });
            stores[named(step, "as", "store")] = std::make_shared<tyr::Store>(std::move(opened));
            return {};
        }
        std::string own = named(step, "on", "store");
        std::shared_ptr<tyr::Store> store = stores.at(own);
        if (method == "close") {
            stores.erase(own);
            CALL0(tyr::Nothing, *store, close);
        } else if (method == "flush") {
            CALL0(tyr::Nothing, *store, flush);
        } else if (method == "compact") {
            CALL0(tyr_compact_report, *store, compact);
        } else if (method == "check") {
            tyr::CheckReport report = CALL0(tyr::CheckReport, *store, check);
            Told told;
            told.kind = Told::Fields;
            told.fields["damage"] = Told::of(Told::Number, report.damage.size());
            return told;
        } else if (method == "stats") {
            Told told;
            told.kind = Told::Fields;
            told.fields["segment_size"] = Told::of(Told::Number, store->stats().segment_size);
            return told;
        } else if (method == "create_keyspace") {
            tyr::Settings settings = settings_of(step["settings"]);
            auto made = CALL(tyr::Keyspace, *store, create_keyspace, step["name"].text, settings);
            keyspaces[step["as"].text] = std::make_shared<tyr::Keyspace>(std::move(made));
        } else if (method == "alter_keyspace") {
            tyr::Settings settings = settings_of(step["settings"]);
            CALL(tyr::Nothing, *store, alter_keyspace, step["name"].text, settings);
        } else if (method == "drop_keyspace") {
            CALL(tyr::Nothing, *store, drop_keyspace, step["name"].text);
        } else if (method == "keyspace") {
            auto found = store->keyspace(step["name"].text);
            keyspaces[step["as"].text] = std::make_shared<tyr::Keyspace>(std::move(found));
        } else if (method == "keyspaces") {
            Told told;
            told.kind = Told::List;
            tyr::List list = store->keyspaces();
            for (const tyr::Item &item : list) told.items.push_back(Told::of(Told::Text, item.key));
            return told;
        } else if (method == "begin") {
            transactions[named(step, "as", "t")] = store->begin();
        } else if (method == "within") {
            auto soon = store->within(std::chrono::milliseconds(step["deadline_ms"].number()));
            stores[step["as"].text] = std::make_shared<tyr::Store>(std::move(soon));
        } else if (method == "snapshot") {
            std::vector<const tyr::Keyspace *> of;
            for (auto &name : step["of"].items) of.push_back(keyspaces.at(name.text).get());
            auto taken = CALL(tyr::Snapshot, *store, snapshot, of);
            snapshots[named(step, "as", "s")] = std::make_shared<tyr::Snapshot>(std::move(taken));
        } else if (method == "create_snapshot") {
            CALL(tyr::Nothing, *store, create_snapshot, *keyspaces.at(step["of"].text), step["name"].text);
        } else if (method == "open_snapshot") {
            auto opened = CALL(tyr::Snapshot, *store, open_snapshot, *keyspaces.at(step["of"].text), step["name"].text);
            snapshots[named(step, "as", "s")] = std::make_shared<tyr::Snapshot>(std::move(opened));
        } else if (method == "snapshots") {
            Told told;
            told.kind = Told::List;
            tyr::List list = CALL(tyr::List, *store, snapshots, *keyspaces.at(step["of"].text));
            for (const tyr::Item &item : list) told.items.push_back(Told::of(Told::Text, item.key));
            return told;
        } else if (method == "drop_snapshot") {
            CALL(tyr::Nothing, *store, drop_snapshot, *keyspaces.at(step["of"].text), step["name"].text);
        } else if (method == "run") {
            return run(step, *store);
        } else {
            throw std::runtime_error("a store does not " + method);
        }
        return {};
    }

    Told run(const Json &step, tyr::Store &store) {
        attempt = 0;
        std::optional<tyr::Receipt> receipt;
        std::exception_ptr thrown;
        try {
            receipt = store.run([&](tyr::Transaction &given) {
                ++attempt;
                transactions["t"] = std::move(given);
                std::exception_ptr ended;
                try {
                    for (auto &one : step["steps"].items) expect(one);
                } catch (...) {
                    ended = std::current_exception();
                }
                given = std::move(transactions.at("t"));
                transactions.erase("t");
                if (ended) std::rethrow_exception(ended);
            });
        } catch (...) {
            thrown = std::current_exception();
        }
        const Json *tries = step.find("tries");
        if (tries && tries->number() != attempt)
            throw std::runtime_error(step.show() + " is tried " + std::to_string(attempt) + " times");
        attempt = 0;
        if (thrown) std::rethrow_exception(thrown);
        return told(*receipt);
    }

    Told keyspace(const Json &step, const std::string &method) {
        std::shared_ptr<tyr::Keyspace> own = keyspaces.at(named(step, "on", "files"));
        tyr::Keyspace &on = *own;
        if (method == "settings") {
            tyr::Settings settings = on.settings();
            Told told;
            told.kind = Told::Fields;
            told.fields["chunk_size"] = Told::of(Told::Number, settings.chunk_size);
            told.fields["multi_version"] = Told::of(Told::Flag, settings.multi_version != 0);
            told.fields["durability"] =
                Told::of(Told::Text, settings.durability == TYR_MEMORY ? "memory" : "disk");
            return told;
        }
        if (method == "within") {
            auto soon = on.within(std::chrono::milliseconds(step["deadline_ms"].number()));
            keyspaces[step["as"].text] = std::make_shared<tyr::Keyspace>(std::move(soon));
            return {};
        }
        if (method == "scan") {
            std::string prefix = optional_bytes(step, "prefix"), after = optional_bytes(step, "after");
            const Json *limit = step.find("limit");
            size_t most = limit ? limit->number() : 1000;
            return Told::entries(CALL(tyr::List, on, scan, prefix, after, most));
        }
        if (method == "stats") {
            std::vector<std::string> keys;
            for (auto &key : step["keys"].items) keys.push_back(bytes_of(key));
            std::vector<Bytes> views(keys.begin(), keys.end());
            tyr::List list = CALL(tyr::List, on, stats, views);
            Told told = Told::entries(list);
            for (size_t at = 0; at < list.size(); ++at)
                if (!list[at].exists) told.items[at] = {};
            return told;
        }
        std::string key = key_of(step);
        if (method == "create") {
            CALL(tyr::Nothing, on, create, key);
        } else if (method == "delete") {
            CALL(tyr::Nothing, on, remove, key);
        } else if (method == "read") {
            auto [start, end] = range_of(step);
            uint64_t from = start, to = end;
            return Told::of(CALL(tyr::Content, on, read, key, from, to));
        } else if (method == "read_into") {
            return read_into(step, [&](tyr::Buffers &buffers) {
                uint64_t offset = step["offset"].number();
                return CALL(uint64_t, on, read_into, key, offset, buffers);
            });
        } else if (method == "write") {
            std::string bytes = bytes_of(step["bytes"]);
            CALL(tyr::Nothing, on, write, key, step["offset"].number(), parts(bytes));
        } else if (method == "put") {
            std::string bytes = bytes_of(step["bytes"]);
            CALL(tyr::Nothing, on, put, key, parts(bytes));
        } else if (method == "append") {
            std::string bytes = bytes_of(step["bytes"]);
            return Told::of(Told::Number, CALL(uint64_t, on, append, key, parts(bytes)));
        } else if (method == "truncate") {
            CALL(tyr::Nothing, on, truncate, key, step["size"].number());
        } else if (method == "punch") {
            auto [start, end] = range_of(step);
            uint64_t from = start, to = end;
            CALL(tyr::Nothing, on, punch, key, from, to);
        } else if (method == "seek_data" || method == "seek_hole") {
            int what = method == "seek_data" ? TYR_DATA : TYR_HOLE;
            uint64_t found = CALL(uint64_t, on, seek, key, what, step["from"].number());
            return found == TYR_END ? Told() : Told::of(Told::Number, found);
        } else if (method == "stat") {
            return Told::of(CALL(tyr::Stat, on, stat, key));
        } else if (method == "exists") {
            return Told::of(Told::Flag, CALL(tyr::Flag, on, exists, key) ? 1 : 0);
        } else if (method == "attribute") {
            return Told::of(CALL(tyr::Content, on, attribute, key, step["name"].text));
        } else if (method == "set_attribute") {
            if (step["value"].kind == Json::Null) {
                CALL(tyr::Nothing, on, unset_attribute, key, step["name"].text);
            } else {
                std::string value = bytes_of(step["value"]);
                CALL(tyr::Nothing, on, set_attribute, key, step["name"].text, value);
            }
        } else if (method == "transform") {
            return Told::of(CALL(tyr::Number, on, transform, key, step["offset"].number(), transform_of(step)));
        } else if (method == "get") {
            return Told::of(CALL(tyr::Blob, on, get, key));
        } else {
            throw std::runtime_error("a keyspace does not " + method);
        }
        return {};
    }

    Told transaction(const Json &step, const std::string &method) {
        std::string own = named(step, "on", "t");
        tyr::Transaction &on = transactions.at(own);
        if (method == "commit") {
            tyr::Transaction ends = std::move(on);
            transactions.erase(own);
            return told(CALL0(tyr::Receipt, ends, commit));
        }
        if (method == "rollback") {
            on.rollback();
            transactions.erase(own);
            return {};
        }
        if (method == "pending") {
            pendings[named(step, "as", "p")] = on.pending();
            return {};
        }
        std::shared_ptr<tyr::Keyspace> held = keyspaces.at(named(step, "in", "files"));
        tyr::Keyspace &in = *held;
        std::string key = key_of(step);
        if (method == "append" || method == "transform") {
            std::string bytes = optional_bytes(step, "bytes");
            uint32_t slot = method == "append" ? CALL(uint32_t, on, append, in, key, parts(bytes))
                                               : CALL(uint32_t, on, transform, in, key, step["offset"].number(),
                                                      transform_of(step));
            if (const Json *name = step.find("slot")) slots[name->text] = slot;
        } else if (method == "check") {
            std::string value;
            tyr::Check check = check_of(step["check"], value);
            CALL(tyr::Nothing, on, check, in, key, check);
        } else if (method == "create") {
            CALL(tyr::Nothing, on, create, in, key);
        } else if (method == "delete") {
            CALL(tyr::Nothing, on, remove, in, key);
        } else if (method == "write") {
            std::string bytes = bytes_of(step["bytes"]);
            CALL(tyr::Nothing, on, write, in, key, step["offset"].number(), parts(bytes));
        } else if (method == "put") {
            std::string bytes = bytes_of(step["bytes"]);
            CALL(tyr::Nothing, on, put, in, key, parts(bytes));
        } else if (method == "truncate") {
            CALL(tyr::Nothing, on, truncate, in, key, step["size"].number());
        } else if (method == "punch") {
            auto [start, end] = range_of(step);
            uint64_t from = start, to = end;
            CALL(tyr::Nothing, on, punch, in, key, from, to);
        } else if (method == "set_attribute") {
            if (step["value"].kind == Json::Null) {
                CALL(tyr::Nothing, on, unset_attribute, in, key, step["name"].text);
            } else {
                std::string value = bytes_of(step["value"]);
                CALL(tyr::Nothing, on, set_attribute, in, key, step["name"].text, value);
            }
        } else {
            return reading(step, method, on, in, key);
        }
        return {};
    }

    // What transactions and snapshots read alike.
    template <class On>
    Told reading(const Json &step, const std::string &method, On &on, tyr::Keyspace &in, const std::string &key) {
        if (method == "read") {
            auto [start, end] = range_of(step);
            uint64_t from = start, to = end;
            return Told::of(CALL(tyr::Content, on, read, in, key, from, to));
        }
        if (method == "read_into") {
            return read_into(step, [&](tyr::Buffers &buffers) {
                uint64_t offset = step["offset"].number();
                return CALL(uint64_t, on, read_into, in, key, offset, buffers);
            });
        }
        if (method == "stat") return Told::of(CALL(tyr::Stat, on, stat, in, key));
        if (method == "exists") return Told::of(Told::Flag, CALL(tyr::Flag, on, exists, in, key) ? 1 : 0);
        if (method == "attribute") {
            return Told::of(CALL(tyr::Content, on, attribute, in, key, step["name"].text));
        }
        throw std::runtime_error("nobody does " + method);
    }

    Told snapshot(const Json &step, const std::string &method) {
        std::string own = named(step, "on", "s");
        if (method == "drop") {
            snapshots.erase(own);
            return {};
        }
        std::shared_ptr<tyr::Snapshot> held = snapshots.at(own);
        tyr::Snapshot &on = *held;
        std::shared_ptr<tyr::Keyspace> keyspace = keyspaces.at(named(step, "in", "files"));
        tyr::Keyspace &in = *keyspace;
        if (method == "scan") {
            std::string prefix = optional_bytes(step, "prefix"), after = optional_bytes(step, "after");
            const Json *limit = step.find("limit");
            size_t most = limit ? limit->number() : 1000;
            return Told::entries(CALL(tyr::List, on, scan, in, prefix, after, most));
        }
        std::string key = key_of(step);
        if (method == "get") return Told::of(CALL(tyr::Blob, on, get, in, key));
        return reading(step, method, on, in, key);
    }

    tyr::Check check_of(const Json &check, std::string &value) {
        auto &[field, wanted] = check.fields.at(0);
        auto number = [&](const Json &json) {
            const Json *name = json.find("kept");
            return name ? kept.at(name->text).number : json.number();
        };
        if (field == "exists") return wanted.kind == Json::True ? tyr::Check::exists() : tyr::Check::missing();
        if (field == "version") return tyr::Check::version(number(wanted));
        if (field == "size") return tyr::Check::size(number(wanted));
        if (field == "offset") {
            value = bytes_of(check["bytes"]);
            return tyr::Check::bytes(number(wanted), value);
        }
        if (check["value"].kind == Json::Null) return tyr::Check::no_attribute(wanted.text);
        value = bytes_of(check["value"]);
        return tyr::Check::attribute(wanted.text, value);
    }

    void together(const Json &step) {
        std::vector<std::thread> workers;
        std::mutex mutex;
        std::exception_ptr failed;
        for (size_t number = 0; number < step["count"].number(); ++number) {
            workers.emplace_back([&, number] {
                try {
                    Stage own;
                    own.stores = stores, own.keyspaces = keyspaces, own.snapshots = snapshots;
                    own.kept = kept, own.place = place, own.worker = number;
                    for (uint64_t times = step["times"].number(); times > 0; --times)
                        for (auto &one : step["steps"].items) own.expect(one);
                } catch (...) {
                    std::lock_guard<std::mutex> lock(mutex);
                    failed = std::current_exception();
                }
            });
        }
        if (const Json *meanwhile = step.find("meanwhile"))
            for (auto &one : meanwhile->items) expect(one);
        for (auto &worker : workers) worker.join();
        if (failed) std::rethrow_exception(failed);
    }

    void replace(const std::string &find, const std::string &with) const {
        size_t replaced = 0;
        for (auto &entry : std::filesystem::recursive_directory_iterator(place + "/store")) {
            if (!entry.is_regular_file()) continue;
            std::ifstream file(entry.path(), std::ios::binary);
            std::stringstream read;
            read << file.rdbuf();
            std::string bytes = read.str();
            size_t before = replaced;
            for (size_t at = 0; (at = bytes.find(find, at)) != std::string::npos; at += with.size()) {
                bytes.replace(at, find.size(), with);
                ++replaced;
            }
            if (replaced > before) std::ofstream(entry.path(), std::ios::binary) << bytes;
        }
        if (replaced == 0) throw std::runtime_error("there was nothing to replace");
    }
};

static void clear() {
    if (!cluster) return;
    cluster->heal();
    tyr::Store store = tyr::Store::open(cluster->url());
    tyr::List list = store.keyspaces();
    for (const tyr::Item &item : list) store.drop_keyspace(std::string(item.key));
    store.close();
}

static void run(const Json &scenario) {
    Stage stage;
    stage.place = scratch + "/scenario";
    std::filesystem::create_directories(stage.place);
    static const std::string opening =
        R"([{"do": "store.open"}, {"do": "store.create_keyspace", "name": "files", "settings": {"chunk_size": 65536}, "as": "files"}])";
    for (auto &step : JsonReader(opening).read().items) stage.expect(step);
    for (auto &step : scenario["steps"].items) stage.expect(step);
    stage.forget();
    std::filesystem::remove_all(stage.place);
    clear();
}

int main(int count, char **words) {
    if (count < 5) return 2;
    std::string how = words[2], on = words[3];
    way = how == "blocking" ? Way::Blocking : how == "queue" ? Way::Queue : Way::Callback;
    scratch = words[4];
    std::ifstream file(words[1]);
    std::stringstream read;
    read << file.rdbuf();
    std::string text = read.str();
    Json list = JsonReader(text).read();
    std::unique_ptr<Cluster> servers;
    if (on == "cluster") {
        servers = std::make_unique<Cluster>(words[5], scratch);
        cluster = servers.get();
    }
    int ran = 0;
    for (auto &scenario : list.items) {
        bool is_for = false;
        for (auto &store : scenario["stores"].items) is_for |= store.text == on;
        if (!is_for) continue;
        try {
            run(scenario);
        } catch (const std::exception &error) {
            std::cerr << scenario["name"].text << ": " << error.what() << "\n";
            return 1;
        }
        ++ran;
    }
    std::cout << ran << " scenarios hold, " << how << ", " << on << "\n";
    return ran >= 30 ? 0 : 1;
}
