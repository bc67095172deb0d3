"""The Responses API over one WebSocket: many turns, each with its own tier."""
