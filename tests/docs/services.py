"""Model services on loopback, so that a page about a provider runs as printed, with the vendor's SDK and no network.

One server speaks the format of each provider. What it answers is what `mock:` would say: tools are called when a prompt
asks for it, and a schema is answered with JSON. The key ``wrong`` is refused.
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from holdfast.models.mock import MockModel
from tests.docs.formats import FORMATS, Format, Json
from tests.models.oci_profile import CONFIG


class Services:
    """The server: ``with Services() as services:`` runs it, `environment` leads every SDK to it."""

    def __init__(self) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables that a reader would set: keys that mean nothing, and this server's address."""
        return {
            "OPENAI_API_KEY": "sk-loopback",
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "ANTHROPIC_API_KEY": "sk-loopback",
            "ANTHROPIC_BASE_URL": self.url,
            "OPENROUTER_API_KEY": "sk-loopback",
            "OPENROUTER_BASE_URL": f"{self.url}/api/v1",
            "OLLAMA_HOST": self.url,
            "OCI_CONFIG_FILE": str(_oci_profile(folder)),
            "OCI_COMPARTMENT_ID": "ocid1.compartment.oc1..loopback",
            "OCI_GENAI_ENDPOINT": self.url,
        }


def _oci_profile(folder: Path) -> Path:
    key, profile = folder / "oci_key.pem", folder / "oci_config"
    key.write_text(CONFIG["key_content"] + "\nOCI_API_KEY\n", encoding="utf-8")
    key.chmod(0o600)
    fields = {**CONFIG, "key_file": str(key)}
    del fields["key_content"]
    lines = [f"{name}={value}" for name, value in fields.items()]
    profile.write_text("\n".join(["[DEFAULT]", *lines, ""]), encoding="utf-8")
    profile.chmod(0o600)
    return profile


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        spoken = next((form for path, form in FORMATS.items() if self.path.endswith(path)), None)
        key = self.headers.get("Authorization") or self.headers.get("x-api-key") or ""
        if spoken is None:
            self._send(404, "application/json", b'{"error": {"message": "no such path"}}')
        elif "wrong" in key:
            self._send(401, "application/json", b'{"error": {"message": "this key is not known"}}')
        else:
            self._answer(spoken, asked)

    def _answer(self, spoken: Format, asked: Json) -> None:
        messages, tools, schema = spoken.read(asked)
        options = {} if schema is None else {"response_schema": schema}
        answer = asyncio.run(MockModel("loopback").complete(messages, tools, **options))
        if spoken.streams(asked):
            self._send(200, spoken.content_type, b"".join(spoken.pieces(answer)))
        else:
            self._send(200, "application/json", json.dumps(spoken.whole(answer)).encode())

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print nothing."""
