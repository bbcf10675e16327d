"""Tensight for agents, over the Model Context Protocol: reading always, driving a training when allowed."""
