/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "view_options.h"
#include "parse.h"

#include "pub_tool_libcbase.h"

/* The value of "name=" at the start of the text, or NULL. */
static const HChar *value_of(const HChar *text, const HChar *name)
{
	SizeT length = VG_(strlen)(name);

	return VG_(strncmp)(text, name, length) ? NULL : text + length;
}

/* One field; returns the rest of the text, or NULL. */
static const HChar *parse_field(const HChar *text, struct tlb_view_config *view,
				UInt views)
{
	const HChar *value;
	ULong number;

	if ((value = value_of(text, "page=")))
		return parse_page_size(value, &view->page_shift);
	if ((value = value_of(text, "l1d=")))
		return parse_level(value, &view->l1d);
	if ((value = value_of(text, "l1i=")))
		return parse_level(value, &view->l1i);
	if ((value = value_of(text, "stlb=")))
		return parse_level(value, &view->stlb);
	if ((value = value_of(text, "code-stlb="))) {
		view->split = true;
		return parse_level(value, &view->stlb_code);
	}
	if ((value = value_of(text, "rest="))) {
		view->mapped = true;
		if (*value == 'b')
			return value + 1;
		value = parse_numbers(value, 1, &number);
		view->rest = (UInt)number;
		return value && number < views ? value : NULL;
	}
	if ((value = value_of(text, "folded="))) {
		value = parse_numbers(value, 1, &number);
		view->folded = number == 1;
		return number <= 1 ? value : NULL;
	}
	return NULL;
}

Bool view_option(const HChar *text, UInt views, struct tlb_view_config *view)
{
	*view = (struct tlb_view_config){ .rest = TLB_REST_BASE };
	for (;;) {
		text = parse_field(text, view, views);
		if (!text)
			return False;
		if (!*text)
			break;
		if (*text++ != ',')
			return False;
	}
	return view->page_shift && view->l1d.entries && view->l1i.entries;
}
