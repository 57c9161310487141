"""Charts, drawn by the server as SVG: a page needs no library and shows the same without scripts."""
