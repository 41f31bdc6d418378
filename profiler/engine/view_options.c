/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "view_options.h"
#include "parse.h"


/* One field; returns the rest of the text, or NULL. */
static const char *parse_field(const char *text, struct tlb_view_config *view,
				uint32_t views)
{
	const char *value;
	uint64_t number;

	if ((value = text_after(text, "page=")))
		return parse_page_size(value, &view->page_shift);
	if ((value = text_after(text, "l1d=")))
		return parse_level(value, &view->l1d);
	if ((value = text_after(text, "l1i=")))
		return parse_level(value, &view->l1i);
	if ((value = text_after(text, "stlb=")))
		return parse_level(value, &view->stlb);
	if ((value = text_after(text, "code-stlb="))) {
		view->split = true;
		return parse_level(value, &view->stlb_code);
	}
	if ((value = text_after(text, "rest="))) {
		view->mapped = true;
		if (*value == 'b')
			return value + 1;
		value = parse_numbers(value, 1, &number);
		view->rest = (uint32_t)number;
		return value && number < views ? value : NULL;
	}
	if ((value = text_after(text, "folded="))) {
		value = parse_numbers(value, 1, &number);
		view->folded = number == 1;
		return number <= 1 ? value : NULL;
	}
	return NULL;
}

/* How many first levels of data, or of code, differ among these views? */
static uint32_t first_levels(const struct tlb_view_config *views, uint32_t count, bool code)
{
	uint32_t different = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct tlb_geometry a = code ? views[i].l1i : views[i].l1d;
		bool known = false;

		for (uint32_t j = 0; j < i && !known; j++) {
			const struct tlb_geometry b = code ? views[j].l1i : views[j].l1d;

			known = views[i].page_shift == views[j].page_shift &&
				views[i].mapped == views[j].mapped &&
				a.entries == b.entries && a.ways == b.ways;
		}
		different += !known;
	}
	return different;
}

bool view_option(const char *text, uint32_t count, struct tlb_view_config *views)
{
	struct tlb_view_config *view = &views[count];

	if (count == TLB_MOST_VIEWS)
		return false;
	*view = (struct tlb_view_config){ .rest = TLB_REST_BASE };
	for (;;) {
		text = parse_field(text, view, count);
		if (!text)
			return false;
		if (!*text)
			break;
		if (*text++ != ',')
			return false;
	}
	return view->page_shift && view->l1d.entries && view->l1i.entries &&
	       first_levels(views, count + 1, false) <= TLB_MOST_LEVELS &&
	       first_levels(views, count + 1, true) <= TLB_MOST_LEVELS;
}
