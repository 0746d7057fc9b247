// An echo of uWebSockets, which benches/websocket.rs runs beside the others. It prints its address, answers each line
// on its standard input with the CPU time that it has taken, and ends with its parent.
//
//     git clone https://github.com/uNetworking/uWebSockets && git clone https://github.com/uNetworking/uSockets
//     cc -O3 -DLIBUS_NO_SSL -IuSockets/src -c uSockets/src/*.c uSockets/src/eventing/epoll_kqueue.c
//     c++ -std=c++20 -O3 -flto -DLIBUS_NO_SSL -DUWS_NO_ZLIB -IuWebSockets/src -IuSockets/src \
//         benches/support/uwebsockets.cpp *.o -o uwebsockets -pthread
#include "App.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <thread>

struct None {};

static void report_cpu_time() {
    for (std::string line; std::getline(std::cin, line);) {
        timespec taken;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &taken);
        std::cout << taken.tv_sec * 1'000'000'000LL + taken.tv_nsec << std::endl;
    }
    std::_Exit(0);
}

int main() {
    auto echo = [](auto *socket, std::string_view message, uWS::OpCode opcode) { socket->send(message, opcode); };
    uWS::App::WebSocketBehavior<None> behavior;
    behavior.compression = uWS::DISABLED;
    behavior.maxPayloadLength = 1 << 20;
    behavior.maxBackpressure = 64 << 20;
    behavior.idleTimeout = 120;
    behavior.message = echo;
    uWS::App app;
    app.ws<None>("/*", std::move(behavior));
    app.listen("127.0.0.1", 0, [](us_listen_socket_t *socket) {
        if (!socket) std::exit(1);
        std::cout << "127.0.0.1:" << us_socket_local_port(0, reinterpret_cast<us_socket_t *>(socket)) << std::endl;
        std::thread(report_cpu_time).detach();
    });
    app.run();
}
