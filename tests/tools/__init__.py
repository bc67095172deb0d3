"""What tests are made with: a scripted upstream, a raw client, a running Tandem, and short ways to make values."""
