"""OpenEnv both ways: a server of it as a world (`openenv:URL`), and any world as a server of it (`env serve`).

Both sides are the official package's classes; what is here maps its typed actions and observations to text and back.
Left out: its tool protocol (MCP) beyond a tool call as an action, and starting a server's container.
"""
