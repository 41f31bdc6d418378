// SPDX-License-Identifier: GPL-2.0-or-later
// Looks up random keys in a large hash map.
import java.util.HashMap;
import java.util.Random;

public class Lookup {
	public static void main(String[] arguments) {
		int keys = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 3_000_000;
		HashMap<Integer, Long> map = new HashMap<>(2 * keys);
		for (int key = 0; key < keys; key++)
			map.put(key, (long) key);
		Random random = new Random(1);
		long sum = 0;
		for (int i = 0; i < keys; i++)
			sum += map.get(random.nextInt(keys));
		System.out.println(sum);
	}
}
