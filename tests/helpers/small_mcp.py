"""A small MCP server without the SDK, for what must start fast: it serves one call and then ends.

``python small_mcp.py FLAG`` makes the file FLAG, and refuses to start where it exists.
"""

import json
import sys
from pathlib import Path

flag = Path(sys.argv[1])
if flag.exists():
    sys.exit(1)
flag.touch()
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "small", "version": "1"}
            reply["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            reply["result"] = {"tools": [{"name": "say", "description": "Says it.", "inputSchema": schema}]}
        case "tools/call":
            if message["params"]["arguments"]["text"] == "die":
                sys.exit(1)
            reply["result"] = {"content": [{"type": "text", "text": "said"}]}
        case _:
            reply["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps(reply), flush=True)
