/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Further machines on the command line: --view and --view-core. */
#include "tlbsim.h"

#include "pub_tool_libcbase.h"

/* The value of "name=" at the start of the text, or NULL. */
static const HChar *value_of(const HChar *text, const HChar *name)
{
	SizeT length = VG_(strlen)(name);

	return VG_(strncmp)(text, name, length) ? NULL : text + length;
}

static const HChar *parse_number(const HChar *text, ULong *number)
{
	HChar *end;

	*number = VG_(strtoull10)(text, &end);
	return end == text ? NULL : end;
}

/* log2 of a page size from 4096 on; returns what follows, or NULL. */
static const HChar *parse_page_size(const HChar *text, UInt *shift)
{
	ULong bytes;

	text = parse_number(text, &bytes);
	if (!text || bytes < 4096 || (bytes & (bytes - 1)))
		return NULL;
	for (*shift = 0; 1ULL << *shift < bytes; ++*shift)
		;
	return text;
}

/* One field; returns what follows, or NULL. */
static const HChar *parse_field(const HChar *text, struct tlb_view_config *view)
{
	const HChar *value;
	ULong number;

	if ((value = value_of(text, "page=")))
		return parse_page_size(value, &view->page_shift);
	if ((value = value_of(text, "l1d=")))
		return tlbsim_parse_level(value, &view->l1d);
	if ((value = value_of(text, "l1i=")))
		return tlbsim_parse_level(value, &view->l1i);
	if ((value = value_of(text, "stlb=")))
		return tlbsim_parse_level(value, &view->stlb);
	if ((value = value_of(text, "code-stlb="))) {
		view->split = true;
		return tlbsim_parse_level(value, &view->stlb_code);
	}
	if ((value = value_of(text, "rest="))) {
		view->mapped = true;
		if (*value == 'b')
			return value + 1;
		value = parse_number(value, &number);
		view->rest = (UInt)number;
		return value && number < tlbsim.view_count ? value : NULL;
	}
	if ((value = value_of(text, "folded="))) {
		value = parse_number(value, &number);
		view->folded = number == 1;
		return number <= 1 ? value : NULL;
	}
	return NULL;
}

Bool tlbsim_parse_view(const HChar *text)
{
	struct tlb_view_config *view;

	if (tlbsim.view_count == TLB_MOST_VIEWS)
		return False;
	view = &tlbsim.view_configs[tlbsim.view_count];
	tlbsim.views[tlbsim.view_count].text = text;
	*view = (struct tlb_view_config){ .rest = TLB_REST_BASE };
	for (;;) {
		text = parse_field(text, view);
		if (!text)
			return False;
		if (!*text)
			break;
		if (*text++ != ',')
			return False;
	}
	tlbsim.view_count++;
	return view->page_shift && view->l1d.entries && view->l1i.entries;
}

Bool tlbsim_parse_view_core(const HChar *text)
{
	struct view_option *view;

	if (!tlbsim.view_count)
		return False;
	view = &tlbsim.views[tlbsim.view_count - 1];
	view->core_text = text;
	view->core = tlbsim.windows.core;
	return tlbsim_parse_core(text, &view->core);
}
