"""What is known of each target now: its pace, its queue, its limits, whether it fails. Fed by facts, read by the decision."""
