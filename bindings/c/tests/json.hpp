// Reads JSON: as much of it as the scenarios have.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Json {
    enum Kind { Null, True, False, Number, Text, List, Object } kind = Null;
    std::string text; // of a text, or the digits of a number
    std::vector<Json> items;
    std::vector<std::pair<std::string, Json>> fields;

    const Json *find(const std::string &name) const {
        for (auto &[key, value] : fields)
            if (key == name) return &value;
        return nullptr;
    }
    const Json &operator[](const std::string &name) const {
        if (const Json *found = find(name)) return *found;
        throw std::runtime_error("there is no " + name);
    }
    uint64_t number() const {
        if (kind != Number) throw std::runtime_error("it is no number");
        return text[0] == '-' ? static_cast<uint64_t>(std::stoll(text)) : std::stoull(text);
    }
    std::string show() const {
        std::string all;
        switch (kind) {
        case Null: return "null";
        case True: return "true";
        case False: return "false";
        case Number: return text;
        case Text: return '"' + text + '"';
        case List:
            for (auto &item : items) all += (all.empty() ? "" : ", ") + item.show();
            return '[' + all + ']';
        default:
            for (auto &[key, value] : fields) all += (all.empty() ? "" : ", ") + key + ": " + value.show();
            return '{' + all + '}';
        }
    }
};

class JsonReader {
public:
    explicit JsonReader(const std::string &text) : text_(text) {}

    Json read() {
        Json value;
        switch (peek()) {
        case '{':
            value.kind = Json::Object;
            list('}', [&] {
                std::string key = string();
                expect(':');
                value.fields.emplace_back(key, read());
            });
            return value;
        case '[':
            value.kind = Json::List;
            list(']', [&] { value.items.push_back(read()); });
            return value;
        case '"':
            value.kind = Json::Text;
            value.text = string();
            return value;
        case 't': return word("true", Json::True);
        case 'f': return word("false", Json::False);
        case 'n': return word("null", Json::Null);
        default:
            value.kind = Json::Number;
            while (at_ < text_.size() && std::string("+-.eE0123456789").find(text_[at_]) != std::string::npos)
                value.text += text_[at_++];
            if (value.text.empty()) throw std::runtime_error("malformed JSON");
            return value;
        }
    }

private:
    char peek() {
        while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
        if (at_ >= text_.size()) throw std::runtime_error("JSON ends too early");
        return text_[at_];
    }
    void expect(char wanted) {
        if (peek() != wanted) throw std::runtime_error(std::string("expected ") + wanted);
        ++at_;
    }
    template <class F> void list(char end, F item) {
        ++at_;
        if (peek() == end) {
            ++at_;
            return;
        }
        for (;;) {
            item();
            if (peek() == end) {
                ++at_;
                return;
            }
            expect(',');
        }
    }
    Json word(const std::string &word, Json::Kind kind) {
        if (text_.compare(at_, word.size(), word) != 0) throw std::runtime_error("malformed JSON");
        at_ += word.size();
        Json value;
        value.kind = kind;
        return value;
    }
    std::string string() {
        expect('"');
        std::string all;
        while (at_ < text_.size() && text_[at_] != '"') {
            if (text_[at_] == '\\') throw std::runtime_error("escapes are not read");
            all += text_[at_++];
        }
        expect('"');
        return all;
    }

    const std::string &text_;
    size_t at_ = 0;
};
