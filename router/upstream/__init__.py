"""The pooled HTTP/1.1 client of the adapters, plain and TLS, which pushes bytes straight into sinks."""
