"""Brings files into a Cog model, from the URLs that callers send, and out of it, as data URLs or into storage."""

from __future__ import annotations

import base64
import binascii
import http.client
import io
import mimetypes
import os
import pathlib
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from .inputs import Link, Wrong

#: Of one file: more fills the disk of a replica for the wish of one caller.
MAX_INPUT_BYTES = 1024**3
#: For which a server may send nothing.
SILENT_SECONDS = 30
_PART_BYTES = 1024 * 1024
#: File systems take 255.
_NAME_BYTES = 100
#: Where files are that no answer can hold, below the project's storage.
_STORED_IN = "cog"
#: What a data URL has besides its content, and the quotes around it.
_URL_BYTES = 256


class Folder:
    """The files that one run has fetched."""

    def __init__(self) -> None:
        self._path: str | None = None

    def fetch(self, value: Any) -> Any:
        """The value with files in place of its links. Raises Wrong if one cannot be had."""
        if isinstance(value, list):
            return [self.fetch(each) for each in value]
        if not isinstance(value, Link):
            return value
        if self._path is None:
            self._path = tempfile.mkdtemp(prefix="cog-")
        folder = tempfile.mkdtemp(dir=self._path)
        is_data = value.url[:5].lower() == "data:"
        return value.kind(_decode(value.url, folder) if is_data else _download(value.url, folder))

    def remove(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


def _decode(url: str, folder: str) -> str:
    head, comma, content = url[5:].partition(",")
    mime, *options = [part.strip() for part in head.split(";")]
    if not comma:
        raise Wrong("must be a whole data URL, such as data:text/plain;base64,aGk=")
    try:
        is_base64 = "base64" in [option.lower() for option in options]
        data = urllib.parse.unquote_to_bytes(content)
        if is_base64:
            data = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Wrong("must be a data URL whose content is base64") from None
    path = os.path.join(folder, "file" + (mimetypes.guess_extension(mime) or ""))
    with open(path, "wb") as file:
        file.write(data)
    return path


class _Redirects(urllib.request.HTTPRedirectHandler):
    """To https and http alone."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise Wrong("must be the URL of a file, and redirects to what is none")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str, folder: str) -> str:
    path = os.path.join(folder, _name_in(url))
    opener = urllib.request.build_opener(_Redirects)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "millrace"})
        with opener.open(request, timeout=SILENT_SECONDS) as answer, open(path, "wb") as file:
            copied = 0
            while part := answer.read(_PART_BYTES):
                copied += len(part)
                if copied > MAX_INPUT_BYTES:
                    raise Wrong("must be a file of at most %d bytes" % MAX_INPUT_BYTES)
                file.write(part)
            declared = answer.headers.get("Content-Length")
            if declared is not None and declared.isdigit() and copied < int(declared):
                raise Wrong("cannot be fetched: the connection ended early")
    except urllib.error.HTTPError as error:
        error.close()
        raise Wrong("cannot be fetched: the server answered %d" % error.code) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise Wrong("cannot be fetched: %s" % str(reason)[:200]) from None
    return path


def _name_in(url: str) -> str:
    """The last part of a URL's path, as a harmless name of a file with the same ending."""
    last = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
    plain = "".join(each if each.isalnum() or each in "._-" else "_" for each in last).lstrip(".")
    stem, ending = os.path.splitext(plain)
    ending = ending if len(ending.encode()) <= _NAME_BYTES // 2 else ""
    return (stem.encode()[: _NAME_BYTES - len(ending.encode())].decode(errors="ignore") or "file") + ending


class Outputs:
    """Turns what one answer holds into JSON: files into data URLs while there is room, else into storage."""

    def __init__(self, limit_bytes: int, run_id: str) -> None:
        self._left_bytes = limit_bytes
        self._run_id = run_id

    def convert(self, value: Any) -> Any:
        """The value, its files as URLs. Raises what reading a file raises."""
        if isinstance(value, pathlib.PurePath):
            return self._file(pathlib.Path(value))
        if isinstance(value, io.IOBase):
            return self._stream(value)
        if isinstance(value, dict):
            return {key: self.convert(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.convert(each) for each in value]
        fields = _fields_of(type(value))
        if fields is not None:
            return {name: self.convert(getattr(value, name)) for name in fields}
        return value

    def _file(self, path: pathlib.Path) -> str:
        size = path.stat().st_size
        if self._has_room(size):
            url = _data_url(path.name, path.read_bytes())
            _remove_temporary(path)
            return url
        with path.open("rb") as source:
            stored = self._store(path.name, source)
        _remove_temporary(path)
        return stored

    def _stream(self, source: Any) -> str:
        name = os.path.basename(str(getattr(source, "name", "file")))
        if source.seekable():
            source.seek(0)
        data = source.read()
        data = data.encode() if isinstance(data, str) else bytes(data)
        return _data_url(name, data) if self._has_room(len(data)) else self._store(name, io.BytesIO(data))

    def _has_room(self, size: int) -> bool:
        needed = (size + 2) // 3 * 4 + _URL_BYTES
        if needed > self._left_bytes:
            return False
        self._left_bytes -= needed
        return True

    def _store(self, name: str, source: Any) -> str:
        """The path at which all apps of the project find the file."""
        root = os.environ.get("PERSISTENT_STORAGE", "")
        folder = os.path.join(root, _STORED_IN, self._run_id)
        os.makedirs(folder, exist_ok=True)
        stem, ending = os.path.splitext(name)
        for number in range(1, 10_000):
            taken = "%s-%d%s" % (stem, number, ending) if number > 1 else name
            try:
                with open(os.path.join(folder, taken), "xb") as target:
                    shutil.copyfileobj(source, target, _PART_BYTES)
                return "/persistent-storage/%s/%s/%s" % (_STORED_IN, self._run_id, taken)
            except FileExistsError:
                continue
        raise OSError("a run stored more than 10,000 files of one name")


def _data_url(name: str, data: bytes) -> str:
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return "data:%s;base64,%s" % (mime, base64.b64encode(data).decode())


def _fields_of(kind: type) -> list[str] | None:
    """The fields of a dataclass or a pydantic model, whose own conversion would show paths in place of files."""
    for attribute in ("__dataclass_fields__", "model_fields", "__fields__"):
        fields = getattr(kind, attribute, None)
        if isinstance(fields, dict):
            return list(fields)
    return None


#: The app's folder and the project's storage, which may be below that of temporary files.
_KEPT = tuple(os.path.realpath(each) + os.sep for each in (os.getcwd(), os.environ.get("PERSISTENT_STORAGE", os.sep)))


def _remove_temporary(path: pathlib.Path) -> None:
    """Removes a file that the model has made for this answer, as Cog does: they would fill the disk."""
    try:
        real, temporary = os.path.realpath(path), os.path.realpath(tempfile.gettempdir())
        if not real.startswith(temporary + os.sep) or real.startswith(_KEPT):
            return
        os.unlink(path)
        if os.path.dirname(real) != temporary:
            os.rmdir(os.path.dirname(real))  # One of `mkdtemp`, unless it has more files.
    except OSError:
        pass
