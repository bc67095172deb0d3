"""The Responses API over one WebSocket: many turns, each with a tier of its own."""
