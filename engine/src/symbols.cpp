#include "symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

// The ELF header of the running program, as the linker defines it: the load address.
extern "C" const char __ehdr_start[] __attribute__((weak, visibility("hidden")));

namespace farm {

namespace {

struct OwnImage {
    const char * file = nullptr;  // the mapped executable
    size_t size = 0;
    const Elf64_Sym * symbols = nullptr;
    size_t n_symbols = 0;
    const char * names = nullptr;
    size_t names_size = 0;
    uint64_t bias = 0;  // load address minus address in the file
    char path[512] = "farm-engine";
    char build_id[65] = "";
};

OwnImage g_image;

template <typename T>
const T * at(uint64_t offset, uint64_t count) {
    const bool inside = offset <= g_image.size && count <= (g_image.size - offset) / sizeof(T);
    return inside ? reinterpret_cast<const T *>(g_image.file + offset) : nullptr;
}

void read_build_id(const Elf64_Shdr & section) {
    const Elf64_Nhdr * note = at<Elf64_Nhdr>(section.sh_offset, 1);
    if (note == nullptr || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 || note->n_descsz > 32) {
        return;
    }
    const auto * bytes = at<unsigned char>(section.sh_offset + sizeof(*note) + 4, note->n_descsz);
    for (size_t i = 0; bytes != nullptr && i < note->n_descsz; i++) {
        g_image.build_id[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        g_image.build_id[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
}

void read_sections(const Elf64_Ehdr & header) {
    const Elf64_Shdr * sections = at<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    for (size_t i = 0; sections != nullptr && i < header.e_shnum; i++) {
        if (sections[i].sh_type == SHT_NOTE) {
            read_build_id(sections[i]);
        } else if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header.e_shnum) {
            const Elf64_Shdr & names = sections[sections[i].sh_link];
            g_image.n_symbols = sections[i].sh_size / sizeof(Elf64_Sym);
            g_image.symbols = at<Elf64_Sym>(sections[i].sh_offset, g_image.n_symbols);
            g_image.names = at<char>(names.sh_offset, names.sh_size);
            g_image.names_size = names.sh_size;
        }
    }
}

}  // namespace

void load_own_symbols() {
    const ssize_t length = readlink("/proc/self/exe", g_image.path, sizeof(g_image.path) - 1);
    g_image.path[length > 0 ? length : 0] = '\0';
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (fd < 0 || fstat(fd, &info) != 0) {
        return;
    }
    g_image.size = static_cast<size_t>(info.st_size);
    void * mapped = mmap(nullptr, g_image.size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (mapped == MAP_FAILED) {
        g_image.size = 0;
        return;
    }
    g_image.file = static_cast<const char *>(mapped);
    const Elf64_Ehdr * header = at<Elf64_Ehdr>(0, 1);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return;
    }
    // A fixed-address executable is loaded where the file says; only a position-independent one moves.
    g_image.bias = header->e_type == ET_DYN ? reinterpret_cast<uint64_t>(__ehdr_start) : 0;
    read_sections(*header);
}

Frame describe_pc(uintptr_t pc) {
    Frame frame;
    frame.file_pc = pc - g_image.bias;
    for (size_t i = 0; g_image.symbols != nullptr && i < g_image.n_symbols; i++) {
        const Elf64_Sym & symbol = g_image.symbols[i];
        const bool inside = frame.file_pc >= symbol.st_value && frame.file_pc - symbol.st_value < symbol.st_size;
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && inside && symbol.st_name < g_image.names_size) {
            frame.name = g_image.names + symbol.st_name;
            frame.offset = frame.file_pc - symbol.st_value;
            frame.in_executable = true;
            return frame;
        }
    }
    return frame;
}

const char * own_path() { return g_image.path; }
const char * own_build_id() { return g_image.build_id; }

}  // namespace farm
