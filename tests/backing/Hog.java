// SPDX-License-Identifier: GPL-2.0-or-later
// A program whose memory is mapped by the Java runtime.
public class Hog {
	public static void main(String[] arguments) throws Exception {
		long[][] blocks = new long[12][1 << 20];
		for (long[] block : blocks)
			java.util.Arrays.fill(block, 1);
		Thread.sleep(150);
		if (blocks[3][7] != 1)
			System.exit(1);
	}
}
