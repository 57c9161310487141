"""Charts: drawn by the server as SVG, so that a page needs no library and shows the same without scripts."""
