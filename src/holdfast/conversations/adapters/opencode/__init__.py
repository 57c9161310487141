"""opencode: it runs plugins instead of hook commands; a small one (`holdfast.js`) hands its events over."""
