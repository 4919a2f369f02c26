"""What tests share: programs, servers, profiles and paths."""
