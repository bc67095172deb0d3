"""The Responses API over WebSockets to targets: one socket per session, over which requests send only what is new."""
