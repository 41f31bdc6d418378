/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sharpen a photo, and make a small one of it: sums that run along rows, then
 * sums that run down columns, blur it; what it differs from that by is added
 * to it; and each pixel of the small one is the mean of a square.
 */
#include "workload.h"

#define COLOURS 3u

struct image {
	unsigned char *pixels;
	uint64_t width;
	uint64_t height;
};

static struct image new_image(uint64_t width, uint64_t height)
{
	return (struct image){ workload_memory(width * height * COLOURS), width, height };
}

static unsigned char *row_of(const struct image *image, uint64_t y)
{
	return image->pixels + y * image->width * COLOURS;
}

/* Soft shapes, and some noise. */
static void take_photo(struct image *photo, uint64_t *state)
{
	for (uint64_t y = 0; y < photo->height; y++) {
		unsigned char *row = row_of(photo, y);

		for (uint64_t x = 0; x < photo->width; x++) {
			uint64_t noise = workload_random(state) >> 32;

			for (unsigned i = 0; i < COLOURS; i++, noise >>= 5)
				*row++ = (unsigned char)((((x * y >> (10 + i)) + x + y) & 0xff) * 7 / 8 +
							 (noise & 31));
		}
	}
}

/* A place, or the nearest one that is in the image. */
static uint64_t clamped(uint64_t at, uint64_t radius, uint64_t length)
{
	at = at < radius ? 0 : at - radius;
	return at < length ? at : length - 1;
}

static void blur_rows(const struct image *from, struct image *to, uint64_t radius)
{
	unsigned window = (unsigned)(2 * radius + 1);

	for (uint64_t y = 0; y < from->height; y++) {
		const unsigned char *old = row_of(from, y);
		unsigned char *new = row_of(to, y);
		unsigned sums[COLOURS] = { 0 };

		for (uint64_t i = 0; i < window; i++)
			for (unsigned j = 0; j < COLOURS; j++)
				sums[j] += old[clamped(i, radius, from->width) * COLOURS + j];
		for (uint64_t x = 0; x < from->width; x++) {
			uint64_t out = clamped(x, radius, from->width) * COLOURS;
			uint64_t in = clamped(x + window, radius, from->width) * COLOURS;

			for (unsigned j = 0; j < COLOURS; j++) {
				new[x * COLOURS + j] = (unsigned char)(sums[j] / window);
				sums[j] += old[in + j];
				sums[j] -= old[out + j];
			}
		}
	}
}

/* A sum for each column goes down with the rows. */
static void blur_columns(const struct image *from, struct image *to, uint64_t radius)
{
	uint64_t bytes = from->width * COLOURS;
	unsigned *sums = workload_memory(bytes * sizeof(*sums));
	unsigned window = (unsigned)(2 * radius + 1);

	memset(sums, 0, bytes * sizeof(*sums));
	for (uint64_t i = 0; i < window; i++) {
		const unsigned char *row = row_of(from, clamped(i, radius, from->height));

		for (uint64_t x = 0; x < bytes; x++)
			sums[x] += row[x];
	}
	for (uint64_t y = 0; y < from->height; y++) {
		const unsigned char *out = row_of(from, clamped(y, radius, from->height));
		const unsigned char *in = row_of(from, clamped(y + window, radius, from->height));
		unsigned char *new = row_of(to, y);

		for (uint64_t x = 0; x < bytes; x++) {
			new[x] = (unsigned char)(sums[x] / window);
			sums[x] += in[x];
			sums[x] -= out[x];
		}
	}
	free(sums);
}

static void sharpen(struct image *photo, const struct image *blurred)
{
	uint64_t bytes = photo->width * photo->height * COLOURS;

	for (uint64_t i = 0; i < bytes; i++) {
		int value = 2 * photo->pixels[i] - blurred->pixels[i];

		photo->pixels[i] = (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
	}
}

/* Of squares of this many pixels, without the rest at the borders. */
static uint64_t small_one(const struct image *photo, uint64_t square)
{
	uint64_t result = 0;

	for (uint64_t y = 0; y + square <= photo->height; y += square) {
		for (uint64_t x = 0; x + square <= photo->width; x += square) {
			uint64_t sums[COLOURS] = { 0 };

			for (uint64_t i = 0; i < square; i++) {
				const unsigned char *pixel = row_of(photo, y + i) + x * COLOURS;

				for (uint64_t j = 0; j < square; j++, pixel += COLOURS)
					for (unsigned k = 0; k < COLOURS; k++)
						sums[k] += pixel[k];
			}
			for (unsigned k = 0; k < COLOURS; k++)
				result = result * 31 + sums[k] / (square * square);
		}
	}
	return result;
}

int main(int argc, char **argv)
{
	uint64_t width = 10000, height = 7000, radius = 6, square = 4, seed = 1, state, sum;
	const struct workload_option options[] = {
		{ "height", &height, 1, "of the photo in pixels" },
		{ "radius", &radius, 0, "of what is blurred" },
		{ "seed", &seed, 0, "of the photo" },
		{ "square", &square, 1, "pixels of the photo for one of the small one" },
		{ "width", &width, 1, "of the photo in pixels" },
	};
	struct image photo, rows, blurred;

	(void)argc;
	WORKLOAD_PARSE(argv, "Sharpen a photo, and make a small one of it.", options);
	if (width > 1 << 20 || height > 1 << 20 || radius > 1000 || square > 1000) {
		fputs("--width and --height must be at most 1M, --radius and --square 1000\n",
		      stderr);
		return 2;
	}
	state = workload_seed(seed);
	photo = new_image(width, height);
	take_photo(&photo, &state);
	rows = new_image(width, height);
	blur_rows(&photo, &rows, radius);
	blurred = new_image(width, height);
	blur_columns(&rows, &blurred, radius);
	free(rows.pixels);
	sharpen(&photo, &blurred);
	free(blurred.pixels);
	sum = small_one(&photo, square);
	free(photo.pixels);
	return workload_finish(sum);
}
