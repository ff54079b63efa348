"""Model directories in and out, in Hugging Face's layout. Each family's dialect is one file; nothing is unpickled."""
