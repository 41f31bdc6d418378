// SPDX-License-Identifier: GPL-2.0-or-later
// Are C++ exceptions caught where they should be, with all destructors in flight?
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

std::atomic<long> alive, wrong;

struct counted {
	counted() { alive++; }
	~counted() { alive--; }
	counted(const counted &) = delete;
	counted &operator=(const counted &) = delete;
};

int descend(int depth)
{
	counted one;

	if (depth == 0)
		throw std::runtime_error(std::string(40, 'x'));
	try {
		return descend(depth - 1) + 1;
	} catch (const std::logic_error &) {
		wrong++;
		return 0;
	}
}

bool more()
{
	static const auto begun = std::chrono::steady_clock::now();
	const char *until = getenv("TORTURE_UNTIL");
	const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;

	return passed.count() < (until ? 60 : 1) && (!until || access(until, F_OK));
}

void throws()
{
	do {
		for (int i = 0; i < 200; i++) {
			try {
				descend(20);
				wrong++;
			} catch (const std::runtime_error &error) {
				if (std::string(error.what()).size() != 40)
					wrong++;
			}
			/* From one thread to another. */
			std::exception_ptr kept;
			std::thread([&kept] {
				try {
					descend(2);
				} catch (...) {
					kept = std::current_exception();
				}
			}).join();
			try {
				std::rethrow_exception(kept);
			} catch (const std::runtime_error &) {
				continue;
			}
			wrong++;
		}
	} while (more());
}

}

int main()
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back(throws);
	for (auto &thread : threads)
		thread.join();
	std::printf("wrong %ld, alive %ld\n", wrong.load(), alive.load());
	return wrong || alive ? 1 : 0;
}
