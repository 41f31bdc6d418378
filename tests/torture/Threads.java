// SPDX-License-Identifier: GPL-2.0-or-later

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** Do Java's threads, compiled code, null checks by faults and garbage collector continue as always? */
public class Threads {
	static final long BEGUN = System.nanoTime();
	static final AtomicLong wrong = new AtomicLong();

	static boolean more() {
		String until = System.getenv("TORTURE_UNTIL");
		double passed = (System.nanoTime() - BEGUN) / 1e9;
		return passed < (until == null ? 1 : 60) && (until == null || !Files.exists(Path.of(until)));
	}

	static void work() {
		do {
			Map<Integer, int[]> map = new HashMap<>();
			for (int i = 0; i < 20000; i++)
				map.merge(i % 1000, new int[] { 1 }, (a, b) -> new int[] { a[0] + b[0] });
			for (int[] each : map.values())
				if (each[0] != 20)
					wrong.incrementAndGet();
			try {
				int[] none = map.get(-1);
				none[0]++;
				wrong.incrementAndGet();
			} catch (NullPointerException expected) {
				continue;
			}
		} while (more());
	}

	public static void main(String[] arguments) throws Exception {
		Thread[] threads = new Thread[4];
		for (int i = 0; i < threads.length; i++) {
			threads[i] = new Thread(Threads::work);
			threads[i].start();
		}
		do {
			Process child = new ProcessBuilder("sh", "-c", "exit 6").start();
			if (child.waitFor() != 6)
				wrong.incrementAndGet();
		} while (more());
		for (Thread thread : threads)
			thread.join();
		System.out.println("wrong " + wrong);
		System.exit(21);
	}
}
