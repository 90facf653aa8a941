/*
 * libtyr for C++17: everything in tyr.h, as objects that free themselves and errors that are thrown.
 *
 * What may wait has a twin that ends in `_async`: it returns an Operation at once, and ends at a Queue or, without one, is told of by the
 * library. Payload and buffers have to stay until the operation has ended; who destroys an Operation cancels it.
 */

#ifndef TYR_HPP
#define TYR_HPP

#include "tyr.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tyr {

/** What failed: one of TYR_CONFLICT and so on, and a sentence. */
class Error : public std::runtime_error {
public:
    Error(int status, const std::string &message) : std::runtime_error(message), status_(status) {}

    /** TYR_CONFLICT and so on. */
    int status() const noexcept { return status_; }
    /** The name of the status: "not-found" and so on. */
    std::string_view name() const noexcept { return tyr_status_name(status_); }

private:
    int status_;
};

namespace detail {

inline void check(int status) {
    if (status != TYR_OK) throw Error(status, tyr_error_message());
}

/** A handle that is freed at the end. */
template <class C, int (*Free)(C *)> class Handle {
public:
    Handle() = default;
    explicit Handle(C *raw) noexcept : raw_(raw) {}
    Handle(Handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    Handle &operator=(Handle &&other) noexcept {
        if (this != &other) {
            reset();
            raw_ = std::exchange(other.raw_, nullptr);
        }
        return *this;
    }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() { reset(); }

    /** The handle of C, which stays this object's. */
    C *raw() const noexcept { return raw_; }
    /** Whether there is one. */
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    /** Frees it now. */
    void reset() noexcept {
        if (raw_) Free(std::exchange(raw_, nullptr));
    }
    /** Where a call puts the handle. */
    C **out() noexcept {
        reset();
        return &raw_;
    }
    /** Gives the handle away. */
    C *release() noexcept { return std::exchange(raw_, nullptr); }

private:
    C *raw_ = nullptr;
};

/** Whether a vector of it is taken as memory: of numbers, bytes, and enumerations only. What has pointers is not what it points to. */
template <class T>
constexpr bool is_plain = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T>;

} // namespace detail

/** Bytes of the caller: from a text, a string, a vector of bytes or numbers, or a place and a size. */
class Bytes {
public:
    Bytes() noexcept : raw_{nullptr, 0} {}
    Bytes(const void *data, size_t size) noexcept : raw_{data, size} {}
    Bytes(std::string_view text) noexcept : raw_{text.data(), text.size()} {}
    Bytes(const std::string &text) noexcept : raw_{text.data(), text.size()} {}
    Bytes(const char *text) noexcept : Bytes(std::string_view(text)) {}
    template <class T, class = std::enable_if_t<detail::is_plain<T>>>
    Bytes(const std::vector<T> &data) noexcept : raw_{data.data(), data.size() * sizeof(T)} {}

    tyr_bytes raw() const noexcept { return raw_; }
    /** The same as a view of text. */
    std::string_view view() const noexcept { return {static_cast<const char *>(raw_.data), raw_.size}; }

private:
    tyr_bytes raw_;
};

/** What is written: bytes, or several, one after the other. */
class Parts {
public:
    template <class T, class = std::enable_if_t<std::is_convertible_v<const T &, Bytes>>>
    Parts(const T &bytes) : one_(Bytes(bytes).raw()), count_(1) {}
    Parts(std::initializer_list<Bytes> parts) : many_(), count_(parts.size()) {
        for (const Bytes &part : parts) many_.push_back(part.raw());
    }
    /** A vector of strings, of texts, and of whatever else are bytes. */
    template <class T, class = std::enable_if_t<std::is_convertible_v<const T &, Bytes>>>
    Parts(const std::vector<T> &parts) : many_(), count_(parts.size()) {
        for (const T &part : parts) many_.push_back(Bytes(part).raw());
    }
    Parts(std::vector<tyr_bytes> parts) : many_(std::move(parts)), count_(many_.size()) {}

    const tyr_bytes *raw() const noexcept { return many_.empty() ? &one_ : many_.data(); }
    size_t count() const noexcept { return count_; }

private:
    tyr_bytes one_{nullptr, 0};
    std::vector<tyr_bytes> many_;
    size_t count_;
};

/** Memory that is read into: a place and a size, or several. */
class Buffers {
public:
    Buffers(void *data, size_t size) : one_{data, size}, count_(1) {}
    template <class T, class = std::enable_if_t<detail::is_plain<T>>>
    Buffers(std::vector<T> &data) : one_{data.data(), data.size() * sizeof(T)}, count_(1) {}
    Buffers(std::initializer_list<tyr_buffer> parts) : many_(parts), count_(parts.size()) {}
    Buffers(std::vector<tyr_buffer> parts) : many_(std::move(parts)), count_(many_.size()) {}

    const tyr_buffer *raw() const noexcept { return many_.empty() ? &one_ : many_.data(); }
    size_t count() const noexcept { return count_; }

private:
    tyr_buffer one_{nullptr, 0};
    std::vector<tyr_buffer> many_;
    size_t count_;
};

/** Bytes that were read; none and false if there are none to speak of, as of an attribute that is not set. */
class Content : public detail::Handle<tyr_content, tyr_content_free> {
public:
    using Handle::Handle;
    const char *data() const noexcept { return view().data(); }
    size_t size() const noexcept { return view().size(); }
    std::string_view view() const noexcept {
        if (!raw()) return {};
        tyr_bytes bytes = tyr_content_bytes(raw());
        return {static_cast<const char *>(bytes.data), bytes.size};
    }
    std::string str() const { return std::string(view()); }
};

/** One of a list, whose texts live as long as the list. */
struct Item {
    /** The key of a blob, the name of a keyspace, snapshot, or attribute, or one damage. */
    std::string_view key;
    /** The value of an attribute. */
    std::string_view value;
    /** Whether a blob that was asked for exists, and a snapshot is complete. */
    bool exists;
    /** The state of a blob. */
    tyr_stat stat;
    /** The settings of a keyspace. */
    tyr_settings settings;
    /** How many blobs a keyspace has, or TYR_UNKNOWN. */
    uint64_t blobs;
    /** The sum of their sizes, or TYR_UNKNOWN. */
    uint64_t bytes;
    /** When a snapshot was taken, in seconds since 1970, by the clock of who took it. */
    uint64_t taken;
};

/** A list of blobs, keyspaces, attributes, or damage. */
class List : public detail::Handle<tyr_list, tyr_list_free> {
public:
    using Handle::Handle;
    size_t size() const noexcept { return raw() ? tyr_list_size(raw()) : 0; }
    Item operator[](size_t index) const {
        tyr_item item;
        detail::check(tyr_list_at(raw(), index, &item));
        auto text = [](tyr_bytes bytes) {
            return std::string_view(static_cast<const char *>(bytes.data), bytes.size);
        };
        return {text(item.key), text(item.value), item.exists != 0, item.stat,
                item.settings,  item.blobs,       item.bytes,       item.taken};
    }

    /** Goes through the items. */
    class Iterator {
    public:
        Iterator(const List *list, size_t index) : list_(list), index_(index) {}
        Item operator*() const { return (*list_)[index_]; }
        Iterator &operator++() {
            ++index_;
            return *this;
        }
        bool operator!=(const Iterator &other) const { return index_ != other.index_; }

    private:
        const List *list_;
        size_t index_;
    };
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, size()}; }
};

/** The state of a blob. */
struct Stat {
    tyr_stat raw{};
    /** Its attributes: items with key and value. */
    List attributes;

    uint64_t size() const noexcept { return raw.size; }
    uint64_t blob() const noexcept { return raw.blob; }
    uint64_t version() const noexcept { return raw.version; }
};

/** A whole blob, of one version. */
struct Blob {
    Stat stat;
    Content content;
};

/** What a check of a directory found. */
struct CheckReport {
    tyr_check_report raw{};
    /** What is damaged: items whose key is a sentence. */
    List damage;
};

/** The result of what has none. */
struct Nothing {};

/** Whether something is so. */
struct Flag {
    int raw = 0;
    operator bool() const noexcept { return raw != 0; }
};

/** A number of one of the types of transforms. */
class Number {
public:
    Number() noexcept : raw_{TYR_U64, {}} { raw_.value.u64 = 0; }
    explicit Number(tyr_number raw) noexcept : raw_(raw) {}
    Number(uint8_t number) noexcept : Number() { raw_.type = TYR_U8, raw_.value.u8 = number; }
    Number(uint16_t number) noexcept : Number() { raw_.type = TYR_U16, raw_.value.u16 = number; }
    Number(uint32_t number) noexcept : Number() { raw_.type = TYR_U32, raw_.value.u32 = number; }
    Number(uint64_t number) noexcept : Number() { raw_.type = TYR_U64, raw_.value.u64 = number; }
    Number(int8_t number) noexcept : Number() { raw_.type = TYR_I8, raw_.value.i8 = number; }
    Number(int16_t number) noexcept : Number() { raw_.type = TYR_I16, raw_.value.i16 = number; }
    Number(int32_t number) noexcept : Number() { raw_.type = TYR_I32, raw_.value.i32 = number; }
    Number(int64_t number) noexcept : Number() { raw_.type = TYR_I64, raw_.value.i64 = number; }
    Number(float number) noexcept : Number() { raw_.type = TYR_F32, raw_.value.f32 = number; }
    Number(double number) noexcept : Number() { raw_.type = TYR_F64, raw_.value.f64 = number; }

    const tyr_number &raw() const noexcept { return raw_; }
    tyr_number *out() noexcept { return &raw_; }
    /** TYR_U8 and so on. */
    int type() const noexcept { return raw_.type; }
    /** The number, converted. */
    template <class T> T as() const {
        switch (raw_.type) {
        case TYR_U8: return static_cast<T>(raw_.value.u8);
        case TYR_U16: return static_cast<T>(raw_.value.u16);
        case TYR_U32: return static_cast<T>(raw_.value.u32);
        case TYR_U64: return static_cast<T>(raw_.value.u64);
        case TYR_I8: return static_cast<T>(raw_.value.i8);
        case TYR_I16: return static_cast<T>(raw_.value.i16);
        case TYR_I32: return static_cast<T>(raw_.value.i32);
        case TYR_I64: return static_cast<T>(raw_.value.i64);
        case TYR_F32: return static_cast<T>(raw_.value.f32);
        default: return static_cast<T>(raw_.value.f64);
        }
    }

private:
    tyr_number raw_;
};

/** What happens to a number where it is. */
class Transform {
public:
    static Transform add(Number operand) { return {TYR_ADD, operand, operand}; }
    static Transform multiply(Number operand) { return {TYR_MULTIPLY, operand, operand}; }
    static Transform min(Number operand) { return {TYR_MIN, operand, operand}; }
    static Transform max(Number operand) { return {TYR_MAX, operand, operand}; }
    static Transform bit_and(Number operand) { return {TYR_AND, operand, operand}; }
    static Transform bit_or(Number operand) { return {TYR_OR, operand, operand}; }
    static Transform bit_xor(Number operand) { return {TYR_XOR, operand, operand}; }
    static Transform swap(Number operand) { return {TYR_SWAP, operand, operand}; }
    static Transform compare_and_swap(Number expected, Number operand) {
        return {TYR_COMPARE_AND_SWAP, operand, expected};
    }
    /** By the number of the op, TYR_ADD and so on. */
    Transform(int op, Number operand, Number expected) : raw_{op, operand.raw(), expected.raw()} {}

    const tyr_transform *raw() const noexcept { return &raw_; }

private:
    tyr_transform raw_;
};

/** A condition on the committed state of a blob at the moment of the commit. */
class Check {
public:
    static Check exists() { return {TYR_CHECK_EXISTS, 0, {}, {}}; }
    static Check missing() { return {TYR_CHECK_MISSING, 0, {}, {}}; }
    static Check version(uint64_t version) { return {TYR_CHECK_VERSION, version, {}, {}}; }
    static Check size(uint64_t size) { return {TYR_CHECK_SIZE, size, {}, {}}; }
    static Check bytes(uint64_t offset, Bytes bytes) { return {TYR_CHECK_BYTES, offset, bytes, {}}; }
    static Check attribute(std::string name, Bytes value) {
        return {TYR_CHECK_ATTRIBUTE, 0, value, std::move(name)};
    }
    static Check no_attribute(std::string name) { return {TYR_CHECK_NO_ATTRIBUTE, 0, {}, std::move(name)}; }

    tyr_check raw() const noexcept { return {what_, number_, bytes_.raw(), name_.c_str()}; }

private:
    Check(int what, uint64_t number, Bytes bytes, std::string name)
        : what_(what), number_(number), bytes_(bytes), name_(std::move(name)) {}
    int what_;
    uint64_t number_;
    Bytes bytes_;
    std::string name_;
};

/** How a store is opened. */
struct Options {
    /** As in C; its texts are set by what is below. */
    tyr_options raw{};
    std::string zone, tls_authority, tls_certificate, tls_key, token, token_file;

    tyr_options with_texts() const noexcept {
        tyr_options all = raw;
        auto text = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
        all.zone = text(zone), all.tls_authority = text(tls_authority);
        all.tls_certificate = text(tls_certificate), all.tls_key = text(tls_key);
        all.token = text(token), all.token_file = text(token_file);
        return all;
    }
};

/** The settings of a keyspace, with their defaults. */
struct Settings : tyr_settings {
    Settings() noexcept { tyr_settings_default(this); }
    Settings(const tyr_settings &raw) noexcept : tyr_settings(raw) {}
};

namespace detail {

/** What an operation and the library share. */
class Shared : public std::enable_shared_from_this<Shared> {
public:
    virtual ~Shared() = default;

    void end(int status, const char *message) {
        std::vector<std::function<void()>> then;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            status_ = status;
            if (status != TYR_OK) message_ = message;
            is_over_ = true;
            then.swap(then_);
        }
        over_.notify_all();
        for (auto &next : then) call(next);
    }
    bool is_over() {
        std::lock_guard<std::mutex> lock(mutex_);
        return is_over_;
    }
    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        over_.wait(lock, [this] { return is_over_; });
    }
    bool wait_for(std::chrono::milliseconds timeout) {
        std::unique_lock<std::mutex> lock(mutex_);
        return over_.wait_for(lock, timeout, [this] { return is_over_; });
    }
    void then(std::function<void()> next) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!is_over_) {
                then_.push_back(std::move(next));
                return;
            }
        }
        call(next);
    }
    void check() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (status_ != TYR_OK) throw Error(status_, message_);
    }

    tyr_operation *operation = nullptr;

private:
    /** An exception must not get into the library, which cannot pass it on. */
    static void call(std::function<void()> &next) noexcept {
        try {
            next();
        } catch (...) {
        }
    }

    std::mutex mutex_;
    std::condition_variable over_;
    bool is_over_ = false;
    int status_ = TYR_OK;
    std::string message_;
    std::vector<std::function<void()>> then_;
};

template <class T> class SharedValue : public Shared {
public:
    T value{};
};

inline std::shared_ptr<Shared> take(void *context) {
    std::unique_ptr<std::shared_ptr<Shared>> held(static_cast<std::shared_ptr<Shared> *>(context));
    return std::move(*held);
}

inline void ended(void *context, int status) { take(context)->end(status, tyr_error_message()); }

} // namespace detail

/** Where operations end; whoever waits here goes on with them, and learns of them. */
class Queue {
public:
    Queue() { detail::check(tyr_queue_create(handle_.out())); }
    Queue(const Queue &) = delete;
    Queue &operator=(const Queue &) = delete;
    /** Waits for what is under way. */
    ~Queue() {
        while (under_way_.load() > 0) {
            try {
                wait();
            } catch (...) {
                break;
            }
        }
    }

    /** Waits until operations have ended, at most so long; returns how many have. */
    size_t wait(std::chrono::milliseconds timeout = std::chrono::milliseconds(-1)) {
        tyr_event events[64];
        size_t count = 0;
        detail::check(tyr_queue_wait(handle_.raw(), events, 64, timeout.count(), &count));
        for (size_t place = 0; place < count; ++place) {
            detail::take(events[place].context)->end(events[place].status, events[place].message);
            --under_way_;
        }
        return count;
    }
    /** How many operations have not been told of. */
    size_t under_way() const noexcept { return under_way_.load(); }

    tyr_queue *raw() const noexcept { return handle_.raw(); }
    void begin() noexcept { ++under_way_; }
    void undo() noexcept { --under_way_; }

private:
    detail::Handle<tyr_queue, tyr_queue_free> handle_;
    std::atomic<size_t> under_way_{0};
};

/** An operation under way. Who destroys it cancels it. */
template <class T> class Operation {
public:
    Operation() = default;
    Operation(Operation &&) noexcept = default;
    Operation &operator=(Operation &&other) noexcept {
        if (this != &other) {
            abandon();
            shared_ = std::move(other.shared_);
            queue_ = other.queue_;
        }
        return *this;
    }
    ~Operation() { abandon(); }

    /** Whether it has ended, as far as was told. */
    bool is_over() const { return shared().is_over(); }
    /** Waits until it has ended; at its queue, if it has one. */
    void wait() {
        while (queue_ && !shared().is_over()) queue_->wait(turn);
        shared().wait();
    }
    /** Waits at most so long, whatever else ends at its queue meanwhile; whether it has ended. */
    bool wait_for(std::chrono::milliseconds timeout) {
        if (!queue_) return shared().wait_for(timeout);
        const auto begun = std::chrono::steady_clock::now();
        const std::chrono::milliseconds none(0);
        for (auto left = timeout; !shared().is_over();) {
            queue_->wait(std::clamp(left, none, turn));
            const auto passed = std::chrono::steady_clock::now() - begun;
            left = timeout - std::chrono::duration_cast<std::chrono::milliseconds>(passed);
            if (left <= none) break;
        }
        return shared().is_over();
    }
    /** Waits, and gives the result, once; throws what was wrong. */
    T get() {
        wait();
        shared().check();
        return std::move(shared().value);
    }
    /** Cancels it: false if it is over. Its buffers are not touched any more. */
    bool cancel() { return shared_ && tyr_cancel(shared_->operation) == TYR_OK; }
    /** Has something done when it has ended, at once if it has. What that throws is lost. */
    void then(std::function<void()> next) { shared().then(std::move(next)); }

    explicit Operation(std::shared_ptr<detail::SharedValue<T>> shared, Queue *queue)
        : shared_(std::move(shared)), queue_(queue) {}

private:
    /** For so long one sleeps at the queue: another thread may be told there of the operation. */
    static constexpr std::chrono::milliseconds turn{100};

    detail::SharedValue<T> &shared() const {
        if (!shared_) throw Error(TYR_INVALID, "no operation was begun here, or it was moved away; use the one that has it");
        return *shared_;
    }
    void abandon() noexcept {
        if (shared_) tyr_cancel(shared_->operation);
    }

    std::shared_ptr<detail::SharedValue<T>> shared_;
    Queue *queue_ = nullptr;
};

namespace detail {

/** Has a call wait, and gives its result. */
template <class T, class F> T now(F &&call) {
    T value{};
    check(call(value, nullptr));
    return value;
}

/** Has a call begin. */
template <class T, class F> Operation<T> later(Queue *queue, F &&call) {
    auto shared = std::make_shared<SharedValue<T>>();
    auto context = std::make_unique<std::shared_ptr<Shared>>(shared);
    tyr_async how{};
    how.context = context.get();
    if (queue) {
        how.queue = queue->raw();
        queue->begin();
    } else {
        how.callback = ended;
    }
    int status = call(shared->value, &how);
    if (status != TYR_OK) {
        if (queue) queue->undo();
        check(status);
    }
    context.release();
    shared->operation = how.operation;
    return Operation<T>(std::move(shared), queue);
}

} // namespace detail

/* Both ways of one call. The body sees the result as `out`, and how it is told of as `how`. */
#define TYR_BOTH(T, NAME, PARAMETERS, ARGUMENTS, CALL)                                                      \
    T NAME PARAMETERS {                                                                                     \
        return detail::now<T>([&](T &out, tyr_async *how) -> int {                                          \
            (void)out;                                                                                      \
            return CALL;                                                                                    \
        });                                                                                                 \
    }                                                                                                       \
    Operation<T> NAME##_async ARGUMENTS {                                                                   \
        return detail::later<T>(queue, [&](T &out, tyr_async *how) -> int {                                 \
            (void)out;                                                                                      \
            return CALL;                                                                                    \
        });                                                                                                 \
    }
#define TYR_LIST(...) __VA_ARGS__
/* A call of a keyspace, transaction, or snapshot: parameters, and the same with a queue behind. */
#define TYR_CALL(T, NAME, PARAMETERS, CALL)                                                                 \
    TYR_BOTH(T, NAME, (TYR_LIST PARAMETERS), (TYR_LIST PARAMETERS, Queue *queue = nullptr), CALL)
#define TYR_CALL0(T, NAME, CALL) TYR_BOTH(T, NAME, (), (Queue *queue = nullptr), CALL)

/** What a committed transaction resulted in. */
class Receipt : public detail::Handle<tyr_receipt, tyr_receipt_free> {
public:
    using Handle::Handle;
    /** The number of the transaction; 0 in a cluster. */
    uint64_t number() const {
        uint64_t number = 0;
        detail::check(tyr_receipt_number(raw(), &number));
        return number;
    }
    /** Where an append put its bytes. */
    uint64_t offset(uint32_t slot) const {
        uint64_t offset = 0;
        detail::check(tyr_receipt_offset(raw(), slot, &offset));
        return offset;
    }
    /** What a transform replaced. */
    Number old(uint32_t slot) const {
        Number old;
        detail::check(tyr_receipt_old(raw(), slot, old.out()));
        return old;
    }
};

/** Finds out how a transaction ended whose commit was not answered in time. */
class Pending : public detail::Handle<tyr_pending, tyr_pending_free> {
public:
    using Handle::Handle;
    /** How it ended, as its commit would have told. */
    TYR_CALL0(Receipt, outcome, tyr_pending_outcome(raw(), out.out(), how))
};

/** An isolated namespace of blobs. See tyr_keyspace_* for what each does. */
class Keyspace : public detail::Handle<tyr_keyspace, tyr_keyspace_free> {
public:
    using Handle::Handle;

    Keyspace within(std::chrono::milliseconds deadline) const {
        Keyspace within;
        detail::check(tyr_keyspace_within(raw(), static_cast<uint64_t>(deadline.count()), within.out()));
        return within;
    }
    std::string name() const {
        tyr_bytes name = tyr_keyspace_name(raw());
        return {static_cast<const char *>(name.data), name.size};
    }
    Settings settings() const {
        Settings settings;
        detail::check(tyr_keyspace_settings(raw(), &settings));
        return settings;
    }

    TYR_CALL(Nothing, create, (Bytes key), tyr_keyspace_create(raw(), key.raw(), how))
    TYR_CALL(Nothing, remove, (Bytes key), tyr_keyspace_delete(raw(), key.raw(), how))
    TYR_CALL0(List, scan, tyr_keyspace_scan(raw(), {}, {}, SIZE_MAX, out.out(), how))
    TYR_CALL(List, scan, (Bytes prefix, Bytes after, size_t limit),
             tyr_keyspace_scan(raw(), prefix.raw(), after.raw(), limit, out.out(), how))
    TYR_CALL(Content, read, (Bytes key), tyr_keyspace_read(raw(), key.raw(), 0, TYR_END, out.out(), how))
    TYR_CALL(Content, read, (Bytes key, uint64_t start, uint64_t end),
             tyr_keyspace_read(raw(), key.raw(), start, end, out.out(), how))
    TYR_CALL(uint64_t, read_into, (Bytes key, uint64_t offset, const Buffers &buffers),
             tyr_keyspace_read_into(raw(), key.raw(), offset, buffers.raw(), buffers.count(), &out, how))
    TYR_CALL(Nothing, write, (Bytes key, uint64_t offset, const Parts &parts),
             tyr_keyspace_write(raw(), key.raw(), offset, parts.raw(), parts.count(), how))
    TYR_CALL(Nothing, put, (Bytes key, const Parts &parts),
             tyr_keyspace_put(raw(), key.raw(), parts.raw(), parts.count(), how))
    TYR_CALL(uint64_t, append, (Bytes key, const Parts &parts),
             tyr_keyspace_append(raw(), key.raw(), parts.raw(), parts.count(), &out, how))
    TYR_CALL(Nothing, truncate, (Bytes key, uint64_t size), tyr_keyspace_truncate(raw(), key.raw(), size, how))
    TYR_CALL(Nothing, punch, (Bytes key, uint64_t start, uint64_t end),
             tyr_keyspace_punch(raw(), key.raw(), start, end, how))
    /** Of TYR_DATA or TYR_HOLE; gives TYR_END if there is none. */
    TYR_CALL(uint64_t, seek, (Bytes key, int what, uint64_t from),
             tyr_keyspace_seek(raw(), key.raw(), what, from, &out, how))
    TYR_CALL(Stat, stat, (Bytes key),
             tyr_keyspace_stat(raw(), key.raw(), &out.raw, out.attributes.out(), how))
    TYR_CALL(List, stats, (const std::vector<Bytes> &keys),
             tyr_keyspace_stats(raw(), Parts(keys).raw(), keys.size(), out.out(), how))
    TYR_CALL(Flag, exists, (Bytes key), tyr_keyspace_exists(raw(), key.raw(), &out.raw, how))
    TYR_CALL(Content, attribute, (Bytes key, const std::string &name),
             tyr_keyspace_attribute(raw(), key.raw(), name.c_str(), out.out(), how))
    TYR_CALL(Nothing, set_attribute, (Bytes key, const std::string &name, Bytes value),
             set(key, name, &value, how))
    TYR_CALL(Nothing, unset_attribute, (Bytes key, const std::string &name), set(key, name, nullptr, how))
    TYR_CALL(Number, transform, (Bytes key, uint64_t offset, const Transform &transform),
             tyr_keyspace_transform(raw(), key.raw(), offset, transform.raw(), out.out(), how))
    TYR_CALL(Blob, get, (Bytes key),
             tyr_keyspace_get(raw(), key.raw(), out.content.out(), &out.stat.raw, out.stat.attributes.out(),
                              how))

private:
    int set(Bytes key, const std::string &name, const Bytes *value, tyr_async *how) {
        tyr_bytes bytes = value ? value->raw() : tyr_bytes{nullptr, 0};
        return tyr_keyspace_set_attribute(raw(), key.raw(), name.c_str(), value ? &bytes : nullptr, how);
    }
};

/** A transaction over any number of blobs of a store. One that is destroyed before it was committed is rolled back. */
class Transaction : public detail::Handle<tyr_transaction, tyr_transaction_free> {
public:
    using Handle::Handle;

    TYR_CALL(Nothing, create, (const Keyspace &keyspace, Bytes key),
             tyr_transaction_create(raw(), keyspace.raw(), key.raw(), how))
    TYR_CALL(Nothing, remove, (const Keyspace &keyspace, Bytes key),
             tyr_transaction_delete(raw(), keyspace.raw(), key.raw(), how))
    TYR_CALL(Content, read, (const Keyspace &keyspace, Bytes key),
             tyr_transaction_read(raw(), keyspace.raw(), key.raw(), 0, TYR_END, out.out(), how))
    TYR_CALL(Content, read, (const Keyspace &keyspace, Bytes key, uint64_t start, uint64_t end),
             tyr_transaction_read(raw(), keyspace.raw(), key.raw(), start, end, out.out(), how))
    TYR_CALL(uint64_t, read_into, (const Keyspace &keyspace, Bytes key, uint64_t offset, const Buffers &buffers),
             tyr_transaction_read_into(raw(), keyspace.raw(), key.raw(), offset, buffers.raw(), buffers.count(),
                                       &out, how))
    TYR_CALL(Nothing, write, (const Keyspace &keyspace, Bytes key, uint64_t offset, const Parts &parts),
             tyr_transaction_write(raw(), keyspace.raw(), key.raw(), offset, parts.raw(), parts.count(), how))
    TYR_CALL(Nothing, put, (const Keyspace &keyspace, Bytes key, const Parts &parts),
             tyr_transaction_put(raw(), keyspace.raw(), key.raw(), parts.raw(), parts.count(), how))
    /** Gives the slot, which the receipt is asked with. */
    TYR_CALL(uint32_t, append, (const Keyspace &keyspace, Bytes key, const Parts &parts),
             tyr_transaction_append(raw(), keyspace.raw(), key.raw(), parts.raw(), parts.count(), &out, how))
    TYR_CALL(Nothing, truncate, (const Keyspace &keyspace, Bytes key, uint64_t size),
             tyr_transaction_truncate(raw(), keyspace.raw(), key.raw(), size, how))
    TYR_CALL(Nothing, punch, (const Keyspace &keyspace, Bytes key, uint64_t start, uint64_t end),
             tyr_transaction_punch(raw(), keyspace.raw(), key.raw(), start, end, how))
    TYR_CALL(Stat, stat, (const Keyspace &keyspace, Bytes key),
             tyr_transaction_stat(raw(), keyspace.raw(), key.raw(), &out.raw, out.attributes.out(), how))
    TYR_CALL(Flag, exists, (const Keyspace &keyspace, Bytes key),
             tyr_transaction_exists(raw(), keyspace.raw(), key.raw(), &out.raw, how))
    TYR_CALL(Content, attribute, (const Keyspace &keyspace, Bytes key, const std::string &name),
             tyr_transaction_attribute(raw(), keyspace.raw(), key.raw(), name.c_str(), out.out(), how))
    TYR_CALL(Nothing, set_attribute,
             (const Keyspace &keyspace, Bytes key, const std::string &name, Bytes value),
             set(keyspace, key, name, &value, how))
    TYR_CALL(Nothing, unset_attribute, (const Keyspace &keyspace, Bytes key, const std::string &name),
             set(keyspace, key, name, nullptr, how))
    /** Gives the slot, which the receipt is asked with. */
    TYR_CALL(uint32_t, transform, (const Keyspace &keyspace, Bytes key, uint64_t offset, const Transform &transform),
             tyr_transaction_transform(raw(), keyspace.raw(), key.raw(), offset, transform.raw(), &out, how))
    TYR_CALL(Nothing, check, (const Keyspace &keyspace, Bytes key, const Check &check),
             checks(keyspace, key, check.raw(), how))
    /** Throws an Error with TYR_CONFLICT if it has to be run again. */
    TYR_CALL0(Receipt, commit, tyr_transaction_commit(raw(), out.out(), how))

    void rollback() noexcept { reset(); }
    Pending pending() const {
        Pending pending;
        detail::check(tyr_transaction_pending(raw(), pending.out()));
        return pending;
    }

private:
    int set(const Keyspace &keyspace, Bytes key, const std::string &name, const Bytes *value, tyr_async *how) {
        tyr_bytes bytes = value ? value->raw() : tyr_bytes{nullptr, 0};
        return tyr_transaction_set_attribute(raw(), keyspace.raw(), key.raw(), name.c_str(),
                                             value ? &bytes : nullptr, how);
    }
    int checks(const Keyspace &keyspace, Bytes key, const tyr_check &check, tyr_async *how) {
        return tyr_transaction_check(raw(), keyspace.raw(), key.raw(), &check, how);
    }
};

/** All blobs of some keyspaces as they were at one point. */
class Snapshot : public detail::Handle<tyr_snapshot, tyr_snapshot_free> {
public:
    using Handle::Handle;

    uint64_t number() const {
        uint64_t number = 0;
        detail::check(tyr_snapshot_number(raw(), &number));
        return number;
    }
    TYR_CALL(Content, read, (const Keyspace &keyspace, Bytes key),
             tyr_snapshot_read(raw(), keyspace.raw(), key.raw(), 0, TYR_END, out.out(), how))
    TYR_CALL(Content, read, (const Keyspace &keyspace, Bytes key, uint64_t start, uint64_t end),
             tyr_snapshot_read(raw(), keyspace.raw(), key.raw(), start, end, out.out(), how))
    TYR_CALL(uint64_t, read_into, (const Keyspace &keyspace, Bytes key, uint64_t offset, const Buffers &buffers),
             tyr_snapshot_read_into(raw(), keyspace.raw(), key.raw(), offset, buffers.raw(), buffers.count(), &out,
                                    how))
    TYR_CALL(Stat, stat, (const Keyspace &keyspace, Bytes key),
             tyr_snapshot_stat(raw(), keyspace.raw(), key.raw(), &out.raw, out.attributes.out(), how))
    TYR_CALL(Flag, exists, (const Keyspace &keyspace, Bytes key),
             tyr_snapshot_exists(raw(), keyspace.raw(), key.raw(), &out.raw, how))
    TYR_CALL(Content, attribute, (const Keyspace &keyspace, Bytes key, const std::string &name),
             tyr_snapshot_attribute(raw(), keyspace.raw(), key.raw(), name.c_str(), out.out(), how))
    TYR_CALL(Blob, get, (const Keyspace &keyspace, Bytes key),
             tyr_snapshot_get(raw(), keyspace.raw(), key.raw(), out.content.out(), &out.stat.raw,
                              out.stat.attributes.out(), how))
    TYR_CALL(List, scan, (const Keyspace &keyspace, Bytes prefix, Bytes after, size_t limit),
             tyr_snapshot_scan(raw(), keyspace.raw(), prefix.raw(), after.raw(), limit, out.out(), how))
};

/** An open store: one in a directory, or a cluster. */
class Store : public detail::Handle<tyr_store, tyr_store_free> {
public:
    using Handle::Handle;

    /** Opens a directory, or the URL of a cluster. */
    static Store open(const std::string &name, const Options &options = {}) {
        return detail::now<Store>([&](Store &out, tyr_async *how) { return begin_open(name, options, out, how); });
    }
    static Operation<Store> open_async(const std::string &name, const Options &options = {},
                                       Queue *queue = nullptr) {
        return detail::later<Store>(
            queue, [&](Store &out, tyr_async *how) { return begin_open(name, options, out, how); });
    }

    /** Stops it cleanly. This object is empty then. */
    Nothing close() {
        detail::check(tyr_store_close(release(), nullptr));
        return {};
    }
    /** As above; if this throws by itself, nothing is closed, and the store stays here. */
    Operation<Nothing> close_async(Queue *queue = nullptr) {
        return detail::later<Nothing>(queue, [&](Nothing &, tyr_async *how) {
            int status = tyr_store_close(raw(), how);
            // A call that is wrong closes nothing.
            if (status == TYR_OK) release();
            return status;
        });
    }
    bool is_cluster() const {
        int is_cluster = tyr_store_is_cluster(raw());
        if (is_cluster < 0) detail::check(is_cluster);
        return is_cluster != 0;
    }
    Store within(std::chrono::milliseconds deadline) const {
        Store within;
        detail::check(tyr_store_within(raw(), static_cast<uint64_t>(deadline.count()), within.out()));
        return within;
    }

    TYR_CALL(Keyspace, create_keyspace, (const std::string &name, const Settings &settings),
             tyr_store_create_keyspace(raw(), name.c_str(), &settings, out.out(), how))
    TYR_CALL(Nothing, alter_keyspace, (const std::string &name, const Settings &settings),
             tyr_store_alter_keyspace(raw(), name.c_str(), &settings, how))
    TYR_CALL(Nothing, drop_keyspace, (const std::string &name),
             tyr_store_drop_keyspace(raw(), name.c_str(), how))
    TYR_CALL(Snapshot, snapshot, (const std::vector<const Keyspace *> &keyspaces),
             take(keyspaces, out, how))
    TYR_CALL(Nothing, create_snapshot, (const Keyspace &keyspace, const std::string &name),
             tyr_store_create_snapshot(raw(), keyspace.raw(), name.c_str(), how))
    TYR_CALL(Snapshot, open_snapshot, (const Keyspace &keyspace, const std::string &name),
             tyr_store_open_snapshot(raw(), keyspace.raw(), name.c_str(), out.out(), how))
    TYR_CALL(List, snapshots, (const Keyspace &keyspace),
             tyr_store_snapshots(raw(), keyspace.raw(), out.out(), how))
    TYR_CALL(Nothing, drop_snapshot, (const Keyspace &keyspace, const std::string &name),
             tyr_store_drop_snapshot(raw(), keyspace.raw(), name.c_str(), how))
    TYR_CALL0(Nothing, flush, tyr_store_flush(raw(), how))
    TYR_CALL0(CheckReport, check, tyr_store_check(raw(), &out.raw, out.damage.out(), how))
    TYR_CALL0(tyr_compact_report, compact, tyr_store_compact(raw(), &out, how))

    Keyspace keyspace(const std::string &name) const {
        Keyspace keyspace;
        detail::check(tyr_store_keyspace(raw(), name.c_str(), keyspace.out()));
        return keyspace;
    }
    List keyspaces() const {
        List list;
        detail::check(tyr_store_keyspaces(raw(), list.out()));
        return list;
    }
    Transaction begin() const {
        Transaction transaction;
        detail::check(tyr_store_begin(raw(), transaction.out()));
        return transaction;
    }
    tyr_reads reads() const {
        tyr_reads reads{};
        detail::check(tyr_store_reads(raw(), &reads));
        return reads;
    }
    tyr_stats stats() const {
        tyr_stats stats{};
        detail::check(tyr_store_stats(raw(), &stats));
        return stats;
    }

    /**
     * Runs a body, which takes a `Transaction &`, until it commits. What it throws rolls back, and is thrown on, unless nobody can say whether
     * it came from blobs whose states do not fit together: then an `Error` with `TYR_UNAVAILABLE` is thrown. An `Error` with `TYR_CONFLICT` has the body
     * run again if an operation of its transaction has met a conflict. A body that rolls back by itself ends the run: nothing happened, and the receipt
     * is empty.
     */
    template <class F> Receipt run(F &&body) {
        struct Frame {
            F &body;
            std::exception_ptr thrown;
            int status;
        } frame{body, nullptr, TYR_OK};
        auto call = [](void *context, tyr_transaction *lent) -> int {
            Frame &frame = *static_cast<Frame *>(context);
            frame.thrown = nullptr;
            Transaction transaction(lent);
            frame.status = TYR_OK;
            try {
                frame.body(transaction);
            } catch (const Error &error) {
                frame.thrown = std::current_exception();
                frame.status = error.status();
            } catch (...) {
                frame.thrown = std::current_exception();
                frame.status = 1;
            }
            // It is the run's, unless the body has rolled it back.
            transaction.release();
            return frame.status;
        };
        Receipt receipt;
        int status = tyr_store_run(raw(), call, &frame, receipt.out());
        if (status != TYR_OK && status == frame.status) std::rethrow_exception(frame.thrown);
        detail::check(status);
        return receipt;
    }

private:
    static int begin_open(const std::string &name, const Options &options, Store &out, tyr_async *how) {
        tyr_options raw = options.with_texts();
        return tyr_store_open(name.c_str(), &raw, out.out(), how);
    }
    int take(const std::vector<const Keyspace *> &keyspaces, Snapshot &out, tyr_async *how) {
        std::vector<const tyr_keyspace *> raws;
        for (const Keyspace *keyspace : keyspaces) raws.push_back(keyspace->raw());
        return tyr_store_snapshot(raw(), raws.data(), raws.size(), out.out(), how);
    }
};

#undef TYR_CALL
#undef TYR_CALL0
#undef TYR_BOTH
#undef TYR_LIST

/** The version of the library. */
inline std::string version() { return tyr_version(); }

} // namespace tyr

#endif
