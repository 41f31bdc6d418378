// SPDX-License-Identifier: GPL-2.0-or-later
// A program whose memory is mapped by the Java runtime. With SMAPS=FILE in the environment, it copies
// what the kernel shows of its memory there.
import java.nio.file.Files;
import java.nio.file.Path;

public class Hog {
	public static void main(String[] arguments) throws Exception {
		long[][] blocks = new long[12][1 << 20];
		for (long[] block : blocks)
			java.util.Arrays.fill(block, 1);
		String name = System.getenv("SMAPS");
		if (name != null)
			Files.write(Path.of(name), Files.readAllBytes(Path.of("/proc/self/smaps")));
		Thread.sleep(150);
		if (blocks[3][7] != 1)
			System.exit(1);
	}
}
