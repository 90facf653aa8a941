// Three servers as processes.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

class Cluster {
public:
    Cluster(std::string command, std::string directory)
        : command_(std::move(command)), directory_(std::move(directory)), nodes_(3) {
        for (int node = 0; node < 3; ++node) {
            nodes_[node].address = start(node, "127.0.0.1:0");
            wait_for(node, "ready");
        }
    }
    Cluster(const Cluster &) = delete;
    Cluster &operator=(const Cluster &) = delete;
    ~Cluster() {
        for (int node = 0; node < 3; ++node) kill(node);
    }

    std::string url() const {
        return "tyr://" + nodes_[0].address + "," + nodes_[1].address + "," + nodes_[2].address;
    }
    void kill(int node) {
        Node &one = nodes_[node];
        if (one.process <= 0) return;
        ::kill(one.process, SIGKILL);
        waitpid(one.process, nullptr, 0);
        close(one.lines);
        one.process = 0;
    }
    void restart(int node) { start(node, nodes_[node].address); }
    void heal() {
        for (int node = 0; node < 3; ++node)
            if (nodes_[node].process <= 0) restart(node);
    }

private:
    struct Node {
        pid_t process = 0;
        int lines = -1;
        std::string address, left;
    };

    // Starts a node, waits until it listens, and says where.
    std::string start(int node, const std::string &listen) {
        std::vector<std::string> words = {command_, "server", "--json", "--log", "error", "--partitions", "16",
                                          "--replicas", "3", "--segment-size", "1MiB", "--directory",
                                          directory_ + "/" + std::to_string(node), "--listen", listen};
        if (node > 0 && listen.back() == '0' && listen == "127.0.0.1:0") {
            words.push_back("--join");
            words.push_back(nodes_[0].address);
        }
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
        std::vector<char *> arguments;
        for (auto &word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        pid_t parent = getpid();
        pid_t process = fork();
        if (process == 0) {
            dup2(ends[1], 1);
            // Servers end with the tests, whatever becomes of those.
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(127);
            execv(command_.c_str(), arguments.data());
            _exit(127);
        }
        close(ends[1]);
        nodes_[node].process = process;
        nodes_[node].lines = ends[0];
        nodes_[node].left.clear();
        std::string said = wait_for(node, "listening");
        size_t begin = said.find("\"address\":\"") + 11;
        return said.substr(begin, said.find('"', begin) - begin);
    }

    std::string wait_for(int node, const std::string &event) {
        for (;;) {
            std::string said = line(node);
            if (said.find("\"event\":\"" + event + "\"") != std::string::npos) return said;
        }
    }

    std::string line(int node) {
        std::string &left = nodes_[node].left;
        for (;;) {
            size_t end = left.find('\n');
            if (end != std::string::npos) {
                std::string said = left.substr(0, end);
                left.erase(0, end + 1);
                return said;
            }
            char some[4096];
            ssize_t count = read(nodes_[node].lines, some, sizeof some);
            if (count <= 0) throw std::runtime_error("a server has ended");
            left.append(some, static_cast<size_t>(count));
        }
    }

    std::string command_, directory_;
    std::vector<Node> nodes_;
};
