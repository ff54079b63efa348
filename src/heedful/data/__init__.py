"""Where examples come from: files, named sets, generated sets; checks on what came in."""
