#include "textflag.h"

DATA ·lines+0(SB)/8, $0.0
DATA ·lines+8(SB)/8, $1.0
DATA ·lines+16(SB)/8, $2.0
DATA ·lines+24(SB)/8, $3.0
GLOBL ·lines(SB), RODATA|NOPTR, $32

DATA ·four+0(SB)/8, $4.0
GLOBL ·four(SB), RODATA|NOPTR, $8

DATA ·one+0(SB)/8, $1.0
GLOBL ·one(SB), RODATA|NOPTR, $8

// PLACES sets the pixels of four lines in R8, R10, R12, R13, their part in Y2, and 1 - part in Y3. Y10 are the lines, Y11
// the slope, Y12 the place in line 0, Y13 ones.
#define PLACES \
	VMULPD Y10, Y11, Y0 \
	VADDPD Y12, Y0, Y0 \
	VCVTTPD2DQY Y0, X1 \
	VCVTDQ2PD X1, Y2 \
	VSUBPD Y2, Y0, Y2 \
	VSUBPD Y2, Y13, Y3 \
	VMOVD X1, R8 \
	VPEXTRD $1, X1, R10 \
	VPEXTRD $2, X1, R12 \
	VPEXTRD $3, X1, R13

// PAIRS sets (1 - part, part) of lines 0 and 2 in Y4, of lines 1 and 3 in Y5.
#define PAIRS \
	VUNPCKLPD Y2, Y3, Y4 \
	VUNPCKHPD Y2, Y3, Y5

// LINES loads the arguments of gather8 and spread8 after the first, and the vector at that, and begins with lines from
// AX to CX - 1 in blocks of four, the number of which is left in CX, the others in DX.
#define LINES \
	MOVQ plane+8(FP), R9 \
	VBROADCASTSD at+16(FP), Y12 \
	VBROADCASTSD slope+24(FP), Y11 \
	MOVQ from+32(FP), AX \
	MOVQ to+40(FP), CX \
	MOVQ stride+48(FP), R11 \
	VMOVUPD (DI), Y8 \
	VMOVUPD 32(DI), Y9 \
	VXORPD X10, X10, X10 \
	VCVTSI2SDQ AX, X10, X10 \
	VBROADCASTSD X10, Y10 \
	VADDPD ·lines(SB), Y10, Y10 \
	VBROADCASTSD ·one(SB), Y13 \
	VBROADCASTSD ·four(SB), Y14 \
	SUBQ AX, CX \
	MOVQ CX, DX \
	ANDQ $3, DX \
	SHRQ $2, CX

// func gather4(sums *[8]float64, plane *float64, at, slope float64, from, blocks, stride int)
TEXT ·gather4(SB), NOSPLIT, $0-56
	MOVQ sums+0(FP), DI
	MOVQ plane+8(FP), R9
	VBROADCASTSD at+16(FP), Y12
	VBROADCASTSD slope+24(FP), Y11
	MOVQ from+32(FP), AX
	MOVQ blocks+40(FP), CX
	MOVQ stride+48(FP), R11
	VXORPD X10, X10, X10
	VCVTSI2SDQ AX, X10, X10
	VBROADCASTSD X10, Y10
	VADDPD ·lines(SB), Y10, Y10
	VBROADCASTSD ·one(SB), Y13
	VBROADCASTSD ·four(SB), Y14
	VMOVUPD (DI), Y8
	VMOVUPD 32(DI), Y9

block:
	PLACES
	PAIRS
	LEAQ (R9)(R11*1), DX
	LEAQ (R9)(R11*2), BX
	LEAQ (DX)(R11*2), SI
	VMOVUPD (R9)(R8*8), X6
	VINSERTF128 $1, (BX)(R12*8), Y6, Y6
	VMOVUPD (DX)(R10*8), X7
	VINSERTF128 $1, (SI)(R13*8), Y7, Y7
	VMULPD Y6, Y4, Y6
	VMULPD Y7, Y5, Y7
	VADDPD Y6, Y8, Y8
	VADDPD Y7, Y9, Y9
	VADDPD Y14, Y10, Y10
	LEAQ (R9)(R11*4), R9
	DECQ CX
	JNZ block
	VMOVUPD Y8, (DI)
	VMOVUPD Y9, 32(DI)
	VZEROUPPER
	RET

// func spread4(plane *float64, at, slope, value float64, from, blocks, stride int)
TEXT ·spread4(SB), NOSPLIT, $0-56
	MOVQ plane+0(FP), R9
	VBROADCASTSD at+8(FP), Y12
	VBROADCASTSD slope+16(FP), Y11
	VBROADCASTSD value+24(FP), Y9
	MOVQ from+32(FP), AX
	MOVQ blocks+40(FP), CX
	MOVQ stride+48(FP), R11
	VXORPD X10, X10, X10
	VCVTSI2SDQ AX, X10, X10
	VBROADCASTSD X10, Y10
	VADDPD ·lines(SB), Y10, Y10
	VBROADCASTSD ·one(SB), Y13
	VBROADCASTSD ·four(SB), Y14

block:
	PLACES
	PAIRS
	LEAQ (R9)(R11*1), DX
	LEAQ (R9)(R11*2), BX
	LEAQ (DX)(R11*2), SI
	VMULPD Y4, Y9, Y4
	VMULPD Y5, Y9, Y5
	VADDPD (R9)(R8*8), X4, X6
	VMOVUPD X6, (R9)(R8*8)
	VEXTRACTF128 $1, Y4, X4
	VADDPD (DX)(R10*8), X5, X7
	VMOVUPD X7, (DX)(R10*8)
	VEXTRACTF128 $1, Y5, X5
	VADDPD (BX)(R12*8), X4, X6
	VMOVUPD X6, (BX)(R12*8)
	VADDPD (SI)(R13*8), X5, X7
	VMOVUPD X7, (SI)(R13*8)
	VADDPD Y14, Y10, Y10
	LEAQ (R9)(R11*4), R9
	DECQ CX
	JNZ block
	VZEROUPPER
	RET

// PLACE sets BX to the pixel in line AX, in bytes, and Y5 to part, Y4 to 1 - part. X11 is the slope,
// X12 the place in line 0, X13 one.
#define PLACE \
	VXORPD X0, X0, X0 \
	VCVTSI2SDQ AX, X0, X0 \
	VMULSD X0, X11, X0 \
	VADDSD X12, X0, X0 \
	VCVTTSD2SIQ X0, BX \
	VXORPD X1, X1, X1 \
	VCVTSI2SDQ BX, X1, X1 \
	VSUBSD X1, X0, X5 \
	VSUBSD X5, X13, X4 \
	VBROADCASTSD X5, Y5 \
	VBROADCASTSD X4, Y4 \
	SHLQ $6, BX

// GATHERLINE adds a line of a block to the sums, and SPREADLINE the values to it: its pixel, and $0x55 times its number.
#define GATHERLINE(PIXEL, WHICH) \
	SHLQ $6, PIXEL \
	VPERMPD WHICH, Y3, Y4 \
	VPERMPD WHICH, Y2, Y5 \
	VMULPD (R9)(PIXEL*1), Y4, Y6 \
	VMULPD 32(R9)(PIXEL*1), Y4, Y7 \
	VMULPD 64(R9)(PIXEL*1), Y5, Y0 \
	VMULPD 96(R9)(PIXEL*1), Y5, Y1 \
	VADDPD Y0, Y6, Y6 \
	VADDPD Y1, Y7, Y7 \
	VADDPD Y6, Y8, Y8 \
	VADDPD Y7, Y9, Y9 \
	ADDQ R11, R9

#define SPREADLINE(PIXEL, WHICH) \
	SHLQ $6, PIXEL \
	VPERMPD WHICH, Y3, Y4 \
	VPERMPD WHICH, Y2, Y5 \
	VMULPD Y8, Y4, Y6 \
	VMULPD Y9, Y4, Y7 \
	VMULPD Y8, Y5, Y0 \
	VMULPD Y9, Y5, Y1 \
	VADDPD (R9)(PIXEL*1), Y6, Y6 \
	VADDPD 32(R9)(PIXEL*1), Y7, Y7 \
	VADDPD 64(R9)(PIXEL*1), Y0, Y0 \
	VADDPD 96(R9)(PIXEL*1), Y1, Y1 \
	VMOVUPD Y6, (R9)(PIXEL*1) \
	VMOVUPD Y7, 32(R9)(PIXEL*1) \
	VMOVUPD Y0, 64(R9)(PIXEL*1) \
	VMOVUPD Y1, 96(R9)(PIXEL*1) \
	ADDQ R11, R9

// func gather8(sums *[Lanes]float64, plane *float64, at, slope float64, from, to, stride int)
TEXT ·gather8(SB), NOSPLIT, $0-56
	MOVQ sums+0(FP), DI
	LINES
	TESTQ CX, CX
	JZ rest

block:
	PLACES
	GATHERLINE(R8, $0x00)
	GATHERLINE(R10, $0x55)
	GATHERLINE(R12, $0xAA)
	GATHERLINE(R13, $0xFF)
	VADDPD Y14, Y10, Y10
	ADDQ $4, AX
	DECQ CX
	JNZ block

rest:
	TESTQ DX, DX
	JZ done

line:
	PLACE
	VMULPD (R9)(BX*1), Y4, Y2
	VMULPD 32(R9)(BX*1), Y4, Y3
	VMULPD 64(R9)(BX*1), Y5, Y6
	VMULPD 96(R9)(BX*1), Y5, Y7
	VADDPD Y6, Y2, Y2
	VADDPD Y7, Y3, Y3
	VADDPD Y2, Y8, Y8
	VADDPD Y3, Y9, Y9
	ADDQ R11, R9
	INCQ AX
	DECQ DX
	JNZ line

done:
	VMOVUPD Y8, (DI)
	VMOVUPD Y9, 32(DI)
	VZEROUPPER
	RET

// func spread8(values *[Lanes]float64, plane *float64, at, slope float64, from, to, stride int)
TEXT ·spread8(SB), NOSPLIT, $0-56
	MOVQ values+0(FP), DI
	LINES
	TESTQ CX, CX
	JZ rest

block:
	PLACES
	SPREADLINE(R8, $0x00)
	SPREADLINE(R10, $0x55)
	SPREADLINE(R12, $0xAA)
	SPREADLINE(R13, $0xFF)
	VADDPD Y14, Y10, Y10
	ADDQ $4, AX
	DECQ CX
	JNZ block

rest:
	TESTQ DX, DX
	JZ done

line:
	PLACE
	VMULPD Y8, Y4, Y2
	VMULPD Y9, Y4, Y3
	VMULPD Y8, Y5, Y6
	VMULPD Y9, Y5, Y7
	VADDPD (R9)(BX*1), Y2, Y2
	VADDPD 32(R9)(BX*1), Y3, Y3
	VADDPD 64(R9)(BX*1), Y6, Y6
	VADDPD 96(R9)(BX*1), Y7, Y7
	VMOVUPD Y2, (R9)(BX*1)
	VMOVUPD Y3, 32(R9)(BX*1)
	VMOVUPD Y6, 64(R9)(BX*1)
	VMOVUPD Y7, 96(R9)(BX*1)
	ADDQ R11, R9
	INCQ AX
	DECQ DX
	JNZ line

done:
	VZEROUPPER
	RET
