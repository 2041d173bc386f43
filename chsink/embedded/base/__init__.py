"""What every service of this machine stands on: its folder, its process, its ports."""
