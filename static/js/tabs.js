// The tabs of a page and the main navigation, which scroll horizontally in narrow windows.

/** Scroll the tab of this page, and its entry in the main navigation, into view. */
export function showActiveTab() {
  for (const tab of document.querySelectorAll('.tabs > [aria-current], .top__nav > [aria-current]')) {
    const tabs = tab.parentElement;
    if (!tabs) continue;
    const [inner, outer] = [tab.getBoundingClientRect(), tabs.getBoundingClientRect()];
    tabs.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  }
}
