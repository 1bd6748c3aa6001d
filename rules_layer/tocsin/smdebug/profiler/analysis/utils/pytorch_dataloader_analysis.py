"""Statistics of data loaders, which have no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["PT_dataloader_analysis"]

PT_dataloader_analysis = absent(
    "PT_dataloader_analysis",
    "PandasFrame.get_all_dataloader_metrics has the table, and rule InputBottleneck the verdict",
)
