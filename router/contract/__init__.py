"""The words that every room shares: types, protocols and the error tree. Imports nothing of ours."""
