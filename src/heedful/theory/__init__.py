"""The identities of the field as demonstrations that run: each states a claim, checks it, and says where it ends."""
