"""The pooled HTTP/1.1 client that adapters are given: plain and TLS, pushed bytes, nothing between them and the sink."""
