"""The cards of this node: all plug-ins together."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol import DeviceInfo
from .nvidia import NvidiaCards
from .plugin import Attachment, DevicePlugin
from .virtual import VirtualCards


class Devices:
    def __init__(self, plugins: Sequence[DevicePlugin] | None = None) -> None:
        if plugins is None:
            plugins = (NvidiaCards(), VirtualCards.from_environment())
        self.plugins = tuple(plugins)
        self.by_id: dict[str, DevicePlugin] = {}

    def probe(self) -> tuple[DeviceInfo, ...]:
        devices = []
        for plugin in self.plugins:
            for device in plugin.probe():
                self.by_id[device.id] = plugin
                devices.append(device)
        return tuple(devices)

    def attach(self, ids: Sequence[str]) -> Attachment:
        """Raises OSError naming a card that is not there or not well."""
        binds: list[tuple[str, str]] = []
        environment: dict[str, str] = {}
        for plugin in self.plugins:
            mine = [id for id in ids if self.by_id.get(id) is plugin]
            if mine:
                for id in mine:
                    wrong = plugin.check(id)
                    if wrong:
                        raise OSError(f"card {id}: {wrong}")
                attachment = plugin.attach(mine)
                binds.extend(attachment.binds)
                environment.update(attachment.environment)
        unknown = [id for id in ids if id not in self.by_id]
        if unknown:
            raise OSError(f"no card {', '.join(unknown)} on this node")
        return Attachment(tuple(dict.fromkeys(binds)), environment)
