"""What tests share: imported by them and by their workers."""
