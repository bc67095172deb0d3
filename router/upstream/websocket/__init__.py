"""The Responses API over WebSockets to targets: one socket for each session, over which a request sends only what is new."""
