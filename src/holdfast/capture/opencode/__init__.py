"""opencode: it runs no commands as hooks, only plugins, so a small one (`holdfast.js`) hands its events over."""
