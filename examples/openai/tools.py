"""Tools as OpenAI's clients send them. A real model decides which to call; this one goes by the words of the prompt."""

import json
import re
import uuid


def call_for(messages, tools, choice):
    """The call that answers the last message, as a member of `tool_calls`; None if it is to be answered in words."""
    functions = [tool["function"] for tool in tools or [] if tool.get("type") == "function"]
    if not functions or choice == "none" or not messages or messages[-1].get("role") == "tool":
        return None
    prompt = text_of(messages[-1])
    if isinstance(choice, dict):
        wanted = [function for function in functions if function["name"] == choice["function"]["name"]]
    else:
        wanted = [function for function in functions if mentions(prompt, function["name"])]
        wanted = wanted or (functions if choice == "required" else [])
    if not wanted:
        return None
    name, schema = wanted[0]["name"], wanted[0].get("parameters") or {}
    arguments = {key: value_for(part, prompt) for key, part in required_in(schema)}
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def deltas(call):
    """The call as the deltas of a stream: first its name, then its arguments."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    begin = {**call, "index": 0, "function": {"name": name, "arguments": ""}}
    yield {"tool_calls": [begin]}
    yield {"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}


def text_of(message):
    """The text of a message; its content may also be a list of parts, or null beside tool calls."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def mentions(prompt, name):
    words = set(re.findall(r"[a-z]+", prompt.lower()))
    return any(part in words for part in re.findall(r"[a-z]{4,}", name.lower()))


def required_in(schema):
    properties = schema.get("properties") or {}
    return [(name, properties.get(name) or {}) for name in schema.get("required") or []]


def value_for(part, prompt):
    """A value of the right type, from the prompt where it has one."""
    if part.get("enum"):
        return next((value for value in part["enum"] if str(value).lower() in prompt.lower()), part["enum"][0])
    kind = part.get("type")
    if kind in ("integer", "number"):
        numbers = re.findall(r"-?\d+(?:\.\d+)?", prompt) if kind == "number" else re.findall(r"-?\d+", prompt)
        return json.loads(numbers[0]) if numbers else 0
    if kind == "boolean":
        return "not" not in prompt.lower().split()
    if kind == "array":
        return []
    if kind == "object":
        return {key: value_for(inner, prompt) for key, inner in required_in(part)}
    # The last name in the prompt, such as a town; else its last word.
    names = re.findall(r"(?<=\s)[A-Z]\w+", prompt) or re.findall(r"\w+", prompt)
    return names[-1] if names else ""
