"""What a study is for, one file each."""
