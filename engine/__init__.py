"""The reference inference engine and the device-side tool: sources in C++, their build and packaging."""
