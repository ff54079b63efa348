"""A hub on this machine: as much of the Hugging Face hub's protocol as fetching models and data needs, from folders."""

import hashlib
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Repository:
    """`revisions`: the folder of each branch or tag; a folder's commit is a hash of its path."""

    revisions: dict[str, Path]
    token: str = ""
    """If set, only requests that carry it see the repository."""
    gated: bool = False
    redirect: bool = False
    """Files come from another path, as large files do on the hub."""


@dataclass
class Hub:
    repositories: dict[str, Repository] = field(default_factory=dict)
    """By owner/name; those of data by datasets/owner/name."""
    log: list[tuple[str, str]] = field(default_factory=list)
    """(method, path) of every request."""
    url: str = ""
    broken: bool = False
    """Answers every request with status 500."""

    def fetched(self) -> list[str]:
        """The names of the files whose content was sent."""
        return sorted(path.rsplit("/", 1)[1] for method, path in self.log if method == "GET" and "/api/" not in path)

    def folder(self, repo: str, revision: str) -> Path | None:
        revisions = self.repositories[repo].revisions
        if revision in revisions:
            return revisions[revision]
        return next((f for f in revisions.values() if commit(f) == revision), None)


def commit(folder: Path) -> str:
    return hashlib.sha1(str(folder).encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        path = urllib.parse.unquote(self.path.split("?")[0])
        self.hub.log.append((self.command, path))
        parts = path.strip("/").split("/")
        if self.hub.broken:
            self._refuse(500, "Broken", "broken")
        elif parts[:2] == ["api", "models"]:
            self._describe("/".join(parts[2:4]), parts[4:])
        elif "resolve" in parts[:-2]:
            at, large = parts.index("resolve"), parts[0] == "large"
            self._send_file("/".join(parts[large:at]), parts[at + 1], "/".join(parts[at + 2 :]), redirect=not large)
        else:
            self._refuse(404, "RepoNotFound", "no such page")

    def _repository(self, repo: str) -> Repository | None:
        found = self.hub.repositories.get(repo)
        if found is None:
            self._refuse(401, "RepoNotFound", "Repository not found")
        elif found.token and self.headers.get("Authorization") != f"Bearer {found.token}":
            self._refuse(
                *((403, "GatedRepo", "Access is restricted") if found.gated else (401, "RepoNotFound", "none"))
            )
        else:
            return found
        return None

    def _describe(self, repo: str, rest: list[str]) -> None:
        if self._repository(repo) is None:
            return
        revision = rest[1] if len(rest) > 1 else "main"
        folder = self.hub.folder(repo, revision)
        if folder is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return
        files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
        names = [(str(p.relative_to(folder)), p.stat().st_size, _digest(p)) for p in files]
        if rest[:1] == ["tree"]:
            self._send_json([{"type": "file", "path": n, "size": s, "oid": d[:40]} for n, s, d in names])
            return
        siblings = [{"rfilename": n, "size": s, "blobId": d[:40]} for n, s, d in names]
        self._send_json({"id": repo, "modelId": repo, "sha": commit(folder), "private": False, "siblings": siblings})

    def _send_file(self, repo: str, revision: str, name: str, redirect: bool) -> None:
        found = self._repository(repo)
        if found is None:
            return
        folder = self.hub.folder(repo, revision)
        path = folder / name if folder else None
        if folder is None or path is None or not path.is_file():
            self._refuse(404, "EntryNotFound", name)
            return
        moved = redirect and found.redirect
        content = path.read_bytes()
        self.send_response(302 if moved else 200)
        self.send_header("X-Repo-Commit", commit(folder))
        self.send_header("ETag", f'"{_digest(path)[:40]}"')
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("X-Linked-ETag", f'"{_digest(path)}"')
        if moved:
            self.send_header("Location", f"/large/{repo}/resolve/{revision}/{name}")
            content = b""
        self._finish(content)

    def _send_json(self, content: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self._finish(json.dumps(content).encode())

    def _refuse(self, status: int, code: str, message: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self._finish(json.dumps({"error": message}).encode())

    def _finish(self, content: bytes) -> None:
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def serve() -> Iterator[Hub]:
    """A hub on a free port, for as long as the block runs."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
