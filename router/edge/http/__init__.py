"""HTTP/1.1: the connection for create calls, and the one for everything else."""
